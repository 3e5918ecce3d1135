-- Response times are kept by month too, and of all customers together; the index of finished tasks has the customer.
select agent_id, customer, by_month, day, bucket, tasks from lakequeue.response_histogram where false;
do $$
begin
  assert (select count(*) from pg_attribute a
          where a.attrelid in ('lakequeue.response_histogram'::regclass, 'lakequeue.hourly_histogram'::regclass)
            and a.attname = 'customer' and not a.attnotnull) = 2, 'customer must be null for all customers';
  assert (select i.indisvalid and i.indnkeyatts = 5 from pg_index i
          where i.indexrelid = to_regclass('lakequeue.tasks_finished')), 'index tasks_finished is missing, invalid or without customer';
end $$;
