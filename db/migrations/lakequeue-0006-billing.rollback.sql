set local role lakequeue_owner;

drop table lakequeue.endpoint_costs;

drop table lakequeue.compute_costs;

drop table lakequeue.compute_runs;

drop table lakequeue.compute_fetches;

create table lakequeue.compute_costs (
  run_id bigint not null,
  sku text not null,
  day date not null,
  quantity numeric not null check (quantity >= 0 and quantity < 1e12),
  list_cost numeric check (list_cost >= 0 and list_cost < 1e12),
  currency text not null default 'USD',
  fetched_at timestamptz not null,
  settled boolean not null default false,
  primary key (run_id, sku, day)
);
comment on table lakequeue.compute_costs is 'Compute of the job runs that this installation submitted, from system.billing.usage.';
comment on column lakequeue.compute_costs.run_id is 'The job run; bind it as text in billing queries.';
comment on column lakequeue.compute_costs.sku is 'What was used.';
comment on column lakequeue.compute_costs.day is 'Usage day.';
comment on column lakequeue.compute_costs.quantity is 'Amount used, in the SKU''s unit (DBU as a rule).';
comment on column lakequeue.compute_costs.list_cost is 'At list price; null: no price known.';
comment on column lakequeue.compute_costs.currency is 'Currency of list_cost.';
comment on column lakequeue.compute_costs.fetched_at is 'When billing was asked.';
comment on column lakequeue.compute_costs.settled is 'Billing will not change it any more.';
