set local role lakequeue_owner;

drop table lakequeue.people;

drop table lakequeue.model_prices;

drop table lakequeue.agents;

drop table lakequeue.model_endpoints;

drop table lakequeue.installation;
