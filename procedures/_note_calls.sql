-- Moves on the place from which the open calls of an endpoint are read (running_books), so that reads pass few entries of
-- calls that have ended, which a snapshot held by somebody else keeps. One call whose end nobody reports, or that waits for
-- hours, would hold it back as long as its attempt lives, so what many have overtaken is moved (_overtaken). Who waits first is
-- said by id, which stays.
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
  v_ids bigint[];
  v_places bigint[];
  v_overtaken record;
begin
  select k.* into v_book from running_books k where k.endpoint_id = _note_calls.endpoint_id order by k.no desc limit 1;
  if not found then
    insert into running_books (endpoint_id) values (_note_calls.endpoint_id) returning * into v_book;
  end if;
  v_newest := greatest(pg_sequence_last_value('lakequeue.model_calls_id_seq'), v_book.call_from);  -- also if it was set back
  select coalesce(array_agg(o.id), '{}'), coalesce(array_agg(o.place), '{}') into v_ids, v_places
  from _open_calls(array[_note_calls.endpoint_id]) o;
  select o.* into v_overtaken from _overtaken(v_ids, v_places, v_newest, v_book.calls_overtaken, '{}') o;
  if v_overtaken.to_move <> '{}' then
    with moved as (
      update model_calls c set place = v_overtaken.move_to
      where c.id = any(array(
        select r.id from model_calls r
        where r.id = any(v_overtaken.to_move)
          and coalesce(r.ended_at, 'infinity') = 'infinity'  -- as no partial index has it, which a kept plan would read whole
        order by r.id
        for no key update skip locked))
      returning c.id
    )
    select o.* into v_overtaken
    from (select coalesce(array_agg(m.id), '{}') as moved from moved m) m
    cross join lateral _overtaken(v_ids, v_places, v_newest, v_book.calls_overtaken, m.moved) o;
  end if;
  update running_books k
  set no = k.no + 1,
      call_from = v_overtaken.place_from,
      calls_overtaken = v_overtaken.overtaken,
      calls_overtaken_from = v_overtaken.overtaken_from
  where k.endpoint_id = _note_calls.endpoint_id and k.no = v_book.no;
end $$;

comment on function lakequeue._note_calls(integer) is 'Moves on the place from which the open calls of an endpoint are read.';
