-- depends: lakequeue-0019-compute
-- Two indexes that no function reads any more. Tasks of an extraction are found through its documents, so the index on
-- tasks.extraction_id cost three entries a task (enqueued, claimed, finished) for nothing; runs that billing was asked for are
-- found by attempt or by fetch.

set local role lakequeue_owner;

drop index lakequeue.tasks_extraction;
drop index lakequeue.compute_runs_task;
