-- The one place where JSON from the outside world becomes jsonb. jsonb refuses \u0000 and lone surrogates, which real
-- PDF text holds; they become U+FFFD here, so that a finished result is never lost for them. An escape counts only
-- after an even number of backslashes.
--
-- value: JSON text as it came. (The backslashes below mean themselves whatever the caller has set.)
-- Errors: LQ413 over 64 MB; LQ422 what no cleaning can make jsonb (a number out of range, nesting too deep).
create or replace function lakequeue._clean_json(value json)
returns jsonb
language plpgsql immutable strict
set search_path = pg_catalog, lakequeue, pg_temp
set standard_conforming_strings = on
as $$
declare
  c_escape constant text := '(?<!\\)((?:\\\\)*)';
  c_high constant text := '\\u[dD][89abAB][0-9a-fA-F]{2}';
  c_low constant text := '[dD][c-fC-F][0-9a-fA-F]{2}';
  c_mark constant text := chr(1);  -- stands in no JSON text: a control character is escaped there
  v_text text := value::text;
begin
  if octet_length(v_text) > 64 * 1024 * 1024 then
    raise exception using errcode = 'LQ413',
      message = format('JSON of %s bytes is too large', octet_length(v_text)),
      hint = 'The limit is 64 MB; store large artefacts in the volume and their path here.';
  end if;
  if v_text not like '%\\u%' then
    return v_text::jsonb;
  end if;
  begin
    return v_text::jsonb;
  exception when untranslatable_character or invalid_text_representation then  -- U+0000, or half a pair
    null;
  end;
  -- Whole pairs are marked, so that what is left are halves. (A look behind for the other half reads all that is before it, for
  -- each of them: a minute for 20,000.)
  v_text := regexp_replace(v_text, c_escape || '(' || c_high || ')\\u(' || c_low || ')', '\1\2' || c_mark || '\3', 'g');
  v_text := regexp_replace(v_text, c_escape || '\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2})(?!' || c_mark || ')', '\1\\ufffd', 'g');
  return replace(v_text, c_mark, '\u')::jsonb;
exception when data_exception or program_limit_exceeded then
  raise exception using errcode = 'LQ422',
    message = format('this JSON cannot be stored: %s', left(sqlerrm, 300)),
    hint = 'Send JSON with finite numbers of ordinary size, nested less than a thousand levels deep.';
end $$;

comment on function lakequeue._clean_json(json) is
  'JSON from outside as jsonb; U+0000 and lone surrogates become U+FFFD.';
