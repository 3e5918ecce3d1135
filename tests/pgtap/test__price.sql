-- What tokens cost: the price in force at the moment, cached tokens as a part of the input; unknown is never 0.
begin;
select plan(9);

select set_model_price('_price a', 2, 8, 0.5, '2026-01-01 00:00+00');
select set_model_price('_price a', 4, 16, 1, '2026-03-01 00:00+00');

select is(_price('_price a', '2026-02-01', 1000000, 500000, 400000), 5.4, 'cached tokens are taken out of the input, and cost less');
select is(_price('_price a', '2026-03-01 00:00+00', 1000000, 500000, 400000), 10.8, 'a new price counts from its moment on');
select is(_price('_price a', '2026-02-01', 1000000, 0, null), 2.0, 'where cached tokens are not known, all cost like others');
select is(_price('_price a', '2026-02-01', 10, 0, 99), 0.000005, 'there are never more of them than there is input');
select is(_price('_price a', '2026-02-01', 0, 0, 0), 0.0, 'nothing used costs nothing');
select is(_price(m.model, m.at, m.input, m.output, 0), null, m.what)
from (values ('_price a', timestamptz '2025-12-31', 1, 1, 'before the first price'),
             ('_price b', '2026-02-01', 1, 1, 'a model without one'),
             ('_price a', '2026-02-01', null, 1, 'input not known'),
             ('_price a', '2026-02-01', 1, null, 'output not known')) m(model, at, input, output, what);

select * from finish();
rollback;
