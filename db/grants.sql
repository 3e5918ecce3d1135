-- Who may call what (the roles of db/README.md). Run by `lakequeue migrate` after the functions were installed; everything not
-- listed here is taken back first, so that this file is the whole truth.

revoke all on all routines in schema lakequeue from public,
  lakequeue_app, lakequeue_web, lakequeue_worker, lakequeue_agent, lakequeue_operator, lakequeue_reader;
revoke all on all tables in schema lakequeue from public,
  lakequeue_app, lakequeue_web, lakequeue_worker, lakequeue_agent, lakequeue_operator, lakequeue_reader;

do $$
declare
  c_enqueue constant text[] := array[
    'create_extraction', 'enqueue_task', 'enqueue_tasks', 'estimate_tokens', 'extraction_progress',
    'extraction_results', 'schema_version'];
  c_read constant text[] := array[
    'queue_metrics', 'queue_history', 'response_history', 'response_summary', 'list_tasks', 'task_detail', 'list_events',
    'list_workers', 'agent_status', 'agent_pace', 'agent_totals', 'needs_attention', 'health', 'may_operate', 'action_scope',
    'explain_throttle', 'explain_throttles', 'extraction_progress', 'extraction_results', 'extraction_detail',
    'list_extractions', 'list_extraction_documents', 'confidence_summary', 'latest_change', 'reporting_time', 'schema_version'];
  c_costs constant text[] := array['cost_report', 'endpoint_cost_report', 'runs_to_price', 'compute_fetch_status'];
  c_settings constant text[] := array['configuration'];
  c_operate constant text[] := array[
    'pause_agent', 'resume_agent', 'cancel_task', 'cancel_tasks', 'retry_task', 'retry_tasks', 'reprocess_task',
    'reprocess_tasks', 'set_priority', 'set_priorities'];
  -- The web process asks billing when an operator presses; from psql an operator can do all of it.
  c_bill constant text[] := array[
    'begin_compute_fetch', 'update_compute_fetch', 'record_compute_cost', 'cancel_compute_fetch'];
  c_configure constant text[] := array[
    'configure_agent', 'configure_endpoint', 'set_model_price', 'set_person', 'set_time_zone'];
  c_keep constant text[] := array['quiesce', 'move_here', 'purge_tasks'];
  c_work constant text[] := array[
    'check_home', 'worker_heartbeat', 'dequeue_tasks', 'confirm_claims', 'adopt_attempts', 'record_runs', 'runs_to_check',
    'extend_leases', 'fail_attempt', 'sweep_leases', 'fold_rollups', 'record_usage', 'attempts_to_settle', 'health', 'schema_version'];
  c_report constant text[] := array[
    'extend_leases', 'reserve_tokens', 'settle_tokens', 'store_result', 'record_callback', 'report_rate_limit',
    'schema_version'];
  v_grant record;
  v_routine regprocedure;
begin
  for v_grant in
    select g.role, g.routines
    from (values
      ('lakequeue_app', c_enqueue),
      ('lakequeue_reader', c_read || c_costs || c_settings),
      ('lakequeue_operator', c_read || c_costs || c_settings || c_operate || c_bill || c_configure || c_keep),
      ('lakequeue_web', c_enqueue || c_read || c_costs || c_operate || c_bill
                        || array['check_home', 'record_callback', 'record_callbacks']),
      ('lakequeue_worker', c_work),
      ('lakequeue_agent', c_report)
    ) g(role, routines)
  loop
    for v_routine in
      select p.oid::regprocedure
      from unnest(v_grant.routines) n(name)
      join pg_proc p on p.proname = n.name and p.pronamespace = 'lakequeue'::regnamespace
    loop
      execute format('grant execute on function %s to %I', v_routine, v_grant.role);
    end loop;
  end loop;
end $$;

grant select on lakequeue.task_costs, lakequeue.task_timeline to lakequeue_reader, lakequeue_operator, lakequeue_web;
