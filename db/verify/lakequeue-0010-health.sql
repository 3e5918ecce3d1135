-- When upkeep was done, and the counters.
select agent_id, completed, failed, cancelled, input_tokens, output_tokens, cached_tokens, llm_cost
from lakequeue.running_totals where false;
do $$
begin
  assert (select array_agg(u.kind order by u.kind) from lakequeue.upkeep u) = array['fold', 'sweep'],
    'upkeep has not its two rows';
end $$;
