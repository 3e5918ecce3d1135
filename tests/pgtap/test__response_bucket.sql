-- The histogram's buckets: each holds what its bounds say, and the middle read back is within 2.5 %.
begin;
select plan(13);

select is(_response_bucket('1 second'), 0::smallint, 'one second is the upper bound of bucket 0');
select is(_response_bucket('1.000001 seconds'), 1::smallint, 'just more is in the next');
select is(_response_bucket('1.05 seconds'), 1::smallint, '1.05 seconds is the upper bound of bucket 1');
select is(_response_bucket('0.96 seconds'), 0::smallint, 'the lower bound of bucket 0 is 1/1.05');
select is(_response_bucket('0.95 seconds'), (-1)::smallint, 'below it is bucket -1');
select is(_response_bucket('1 millisecond'), _response_bucket('0'), 'no time at all counts as a millisecond');
select is(_response_bucket('-1 hour'), _response_bucket('0'), 'so does a clock that went backwards');
select cmp_ok(_response_bucket('2 milliseconds'), '>', _response_bucket('1 millisecond'), 'two milliseconds are more');
select is(_response_bucket('30 years'), _response_bucket(make_interval(days => 30 * 365 + 7)),
  'decades still have a bucket');
select is(_response_bucket(null), null, 'no response time, no bucket');

select is(
  (select max(abs(power(1.05::float8, _response_bucket(make_interval(secs => s)) - 0.5) / s - 1)) < 0.0251
   from (select power(1.0371::float8, n) as s from generate_series(-180, 480) n) v),
  true, 'from a millisecond to a year the middle of the bucket is within 2.5 % of the time');
select is(
  (select bool_and(b >= before) from (
     select _response_bucket(make_interval(secs => n * 0.37)) as b,
            lag(_response_bucket(make_interval(secs => n * 0.37)), 1, -200::smallint) over (order by n) as before
     from generate_series(1, 5000) n) v),
  true, 'a longer time is never in a lower bucket');

set session authorization test_reader;
select throws_ok('select lakequeue._response_bucket(''1 second'')', '42501', null, 'it is internal: a reader may not call it');
set session authorization test_owner;

select * from finish();
rollback;
