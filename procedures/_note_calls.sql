-- Moves on the place from which the open calls of an endpoint are read (running_books), so that reads pass few entries of
-- calls that have ended, which a snapshot held by somebody else keeps. One call whose end nobody reports, or that waits for
-- hours, would hold it back as long as its attempt lives, so one that was overtaken by more than 250 calls, and by four
-- times as many as are open, is moved to the newest place. Who waits first is said by id, which stays.
--
-- Locks: the caller holds the endpoint's throttle lock exclusively, so that nobody asks for a call meanwhile; the calls that
-- are moved, locked ones are skipped: it must be the last that a transaction locks.
create or replace function lakequeue._note_calls(endpoint_id integer)
returns void
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
set enable_bitmapscan = off
as $$
declare
  v_book running_books;
  v_newest bigint;
  v_overtaken bigint[];
begin
  select k.* into v_book from running_books k where k.endpoint_id = _note_calls.endpoint_id order by k.no desc limit 1;
  if not found then
    insert into running_books (endpoint_id) values (_note_calls.endpoint_id) returning * into v_book;
  end if;
  v_newest := greatest(pg_sequence_last_value('lakequeue.model_calls_id_seq'), v_book.call_from);  -- also if it was set back
  v_overtaken := array(
    select c.id
    from (select o.id, o.place, count(*) over () as open from _open_calls(array[_note_calls.endpoint_id]) o) c
    where c.place < v_newest - greatest(250, 4 * c.open));
  if v_overtaken <> '{}' then
    update model_calls c set place = v_newest
    where c.id = any(array(
      select r.id from model_calls r
      where r.id = any(v_overtaken) and r.ended_at is null
      order by r.id
      for no key update skip locked));
  end if;
  update running_books k
  set no = k.no + 1,
      call_from = coalesce((select min(c.place) from _open_calls(array[_note_calls.endpoint_id]) c), v_newest)
  where k.endpoint_id = _note_calls.endpoint_id and k.no = v_book.no;
end $$;

comment on function lakequeue._note_calls(integer) is 'Moves on the place from which the open calls of an endpoint are read.';
