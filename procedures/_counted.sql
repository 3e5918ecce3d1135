-- What an attempt that does not reserve its calls counts in a window of its endpoint (rule 4a), by kind: the larger of
-- estimate and used, or as used where its run has ended and its usage is complete. An estimate is split by the agent's
-- output_share. (_spending says the same in one statement for thousands of them.)
--
-- attempt: its row. output_share: its agent's.
create or replace function lakequeue._counted(attempt lakequeue.task_attempts, output_share real)
returns numeric[]
language sql immutable
return case
  when attempt.usage_complete and attempt.run_ended_at is not null
  then array[1, coalesce(attempt.input_tokens, 0) + coalesce(attempt.output_tokens, 0), coalesce(attempt.input_tokens, 0),
             coalesce(attempt.output_tokens, 0), 1]
  else array[1, greatest(attempt.estimated_tokens, coalesce(attempt.input_tokens, 0) + coalesce(attempt.output_tokens, 0)),
             greatest(attempt.estimated_tokens - ceil(attempt.estimated_tokens * output_share::numeric), attempt.input_tokens, 0),
             greatest(ceil(attempt.estimated_tokens * output_share::numeric), attempt.output_tokens, 0), 1]
end;

comment on function lakequeue._counted(lakequeue.task_attempts, real) is
  'What an attempt that does not reserve its calls counts in a window of its endpoint.';
