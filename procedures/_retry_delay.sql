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
  -- in seconds, since an interval of hours overflows when it is doubled thirty times
  return make_interval(secs => (0.5 + random() / 2) * least(
    extract(epoch from cap)::double precision,
    extract(epoch from base)::double precision * power(2::double precision, least(greatest(n, 1), 64) - 1)));
end $$;

comment on function lakequeue._retry_delay(integer, interval, interval) is 'Wait before the n-th retry, with jitter.';
