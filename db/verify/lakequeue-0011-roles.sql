-- The login of an extraction, filled in by default.
select login from lakequeue.extractions where false;
do $$
begin
  assert (select a.attnotnull and a.atthasdef from pg_attribute a
          where a.attrelid = 'lakequeue.extractions'::regclass and a.attname = 'login'), 'login may be missing';
end $$;
