create table if not exists account (email text primary key);
create table if not exists outbox (
    message_id bigint generated always as identity primary key,
    recipient  text not null,
    subject    text not null,
    body       text not null,
    sent_at    timestamptz
);
