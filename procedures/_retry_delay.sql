-- Exponential backoff with equal jitter: half of least(cap, base * 2^(n-1)) fixed, half random, so that tasks that
-- failed together do not return together (AWS Architecture Blog, "Exponential Backoff And Jitter").
--
-- n: the how many-th wait, from 1.
create or replace function lakequeue._retry_delay(n integer, base interval, cap interval)
returns interval
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  return least(cap, base * power(2, least(greatest(n, 1), 31) - 1)) * (0.5 + random() / 2);
end $$;

comment on function lakequeue._retry_delay(integer, interval, interval) is 'Wait before the n-th retry, with jitter.';
