-- What an attempt that does not reserve its calls counts in a window of its endpoint (rule 4a), by kind: the larger of
-- estimate and used, or as used where its run has ended and its usage is complete. An estimate is split by the agent's
-- output_share. (_spending says the same in one statement for thousands of them.)
--
-- attempt: its row. output_share: its agent's; looked up where it is not given.
create or replace function lakequeue._counted(attempt lakequeue.task_attempts, output_share real default null)
returns numeric[]
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_input numeric := coalesce(attempt.input_tokens, 0);
  v_output numeric := coalesce(attempt.output_tokens, 0);
  v_estimated_output numeric;
begin
  if attempt.usage_complete and attempt.run_ended_at is not null then
    return array[1, v_input + v_output, v_input, v_output, 1];
  end if;
  if output_share is null then
    output_share := (select g.output_share from agents g where g.id = attempt.agent_id);
  end if;
  v_estimated_output := ceil(attempt.estimated_tokens * output_share::numeric);
  return array[1, greatest(attempt.estimated_tokens, v_input + v_output),
               greatest(attempt.estimated_tokens - v_estimated_output, v_input), greatest(v_estimated_output, v_output), 1];
end $$;

comment on function lakequeue._counted(lakequeue.task_attempts, real) is
  'What an attempt that does not reserve its calls counts in a window of its endpoint.';
