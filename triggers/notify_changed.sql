-- Changed tasks: watchers are nudged when a status changed; workers when a task became claimable or left processing,
-- which frees room. Heartbeats change no status and nudge nobody.
create or replace function lakequeue.notify_changed()
returns trigger
language plpgsql
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_changed boolean;
  v_claimable boolean;
begin
  select coalesce(bool_or(o.status <> n.status), false),
         coalesce(bool_or((o.status = 'processing' and n.status <> 'processing')
                  or (n.status = 'enqueued' and n.retry_at is null
                      and (o.status <> 'enqueued' or o.retry_at is not null))), false)
  into v_changed, v_claimable
  from before_change o
  join after_change n on n.id = o.id;

  if v_claimable then
    perform _nudge('lakequeue_worker');
  end if;
  if v_changed then
    perform _nudge('lakequeue_changes');
  end if;
  return null;
end $$;

comment on function lakequeue.notify_changed() is 'Nudges workers and watchers when tasks changed status.';

create or replace trigger notify_changed
after update on lakequeue.tasks
referencing old table as before_change new table as after_change
for each statement
execute function lakequeue.notify_changed();

comment on trigger notify_changed on lakequeue.tasks is 'Nudges workers and watchers when tasks changed status.';
