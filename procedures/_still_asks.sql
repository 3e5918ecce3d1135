-- Whether an agent still asks for a call that waits: it has done so in the last 10 seconds. A call for which nobody asks any
-- more holds up nobody (its run may be dead) and is booked nowhere.
--
-- call: its row. at: the time, as _now() tells it.
create or replace function lakequeue._still_asks(call lakequeue.model_calls, at timestamptz)
returns boolean
language sql stable
return call.seen_at > at - interval '10 seconds';

comment on function lakequeue._still_asks(lakequeue.model_calls, timestamptz) is 'Whether an agent still asks for a call that waits.';
