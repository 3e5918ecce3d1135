-- What is configured can be read back; the secret cannot.
begin;
\ir scenarios.sql
select plan(9);

select configure_endpoint('_cf e', max_tpm => 5000), configure_agent('_cf a', job_id => 7, model_endpoint => '_cf e', lease_duration => '2 minutes', max_attempts => 4),
       set_model_price('_cf m', 3, 15), set_model_price('_cf m', 4, 15, valid_from => '2020-01-01'), set_person('_cf ann', 'operator');
create function pg_temp.setting(kind text, name text, key text) returns setof text language sql as
$$ select c.settings ->> key from lakequeue.configuration() c where c.kind = setting.kind and c.name = setting.name $$;
select is(pg_temp.setting('agent', '_cf a', 'lease_duration'), '00:02:00', 'an agent''s lease');
select is(pg_temp.setting('agent', '_cf a', 'job_id') || pg_temp.setting('agent', '_cf a', 'max_attempts'), '74', 'its job and attempts');
select is(pg_temp.setting('agent', '_cf a', 'model_endpoint'), '_cf e', 'its endpoint by name');
select is(pg_temp.setting('endpoint', '_cf e', 'max_tpm'), '5000', 'an endpoint''s limit');
select results_eq($$select pg_temp.setting('price', '_cf m', 'input_usd')::numeric$$, $$values (4::numeric), (3)$$, 'prices, the oldest first');
select is(pg_temp.setting('person', '_cf ann', 'role'), 'operator', 'a person''s role');
select is((select count(*) from configuration() c where c.kind = 'installation'), 1::bigint, 'the installation');
select ok((select bool_and(c.settings::text not like '%' || i.secret::text || '%' and not c.settings ? 'secret')
           from configuration() c cross join (select encode(i.secret, 'hex') as secret from installation i) i), 'without its secret');

select not_for('test_web', 'select lakequeue.configuration()');

select * from finish();
rollback;
