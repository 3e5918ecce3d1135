set local role lakequeue_owner;

drop table lakequeue.fold_books;
