-- A timestamptz(3) column rounds to the nearest millisecond, so a value of clock_timestamp() can be stored up to 0.5 ms in
-- the future. A row that is due at once was then not due yet for a pass that came in the same millisecond. clock_ms() cuts
-- to the millisecond instead: what it wrote is never later than what the clock shows.
--
-- Safe beside the previous release, which calls clock_timestamp() itself. A default is catalog data: no table is rewritten.

CREATE FUNCTION clock_ms() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$ SELECT date_trunc('milliseconds', clock_timestamp()) $$;

ALTER TABLE "companies" ALTER COLUMN "created_at" SET DEFAULT clock_ms();
ALTER TABLE "api_keys" ALTER COLUMN "created_at" SET DEFAULT clock_ms();
ALTER TABLE "model_keys" ALTER COLUMN "created_at" SET DEFAULT clock_ms();
ALTER TABLE "agents" ALTER COLUMN "created_at" SET DEFAULT clock_ms();
ALTER TABLE "rooms" ALTER COLUMN "created_at" SET DEFAULT clock_ms();
ALTER TABLE "room_members" ALTER COLUMN "joined_at" SET DEFAULT clock_ms();
ALTER TABLE "invitations" ALTER COLUMN "created_at" SET DEFAULT clock_ms();
ALTER TABLE "room_agents" ALTER COLUMN "added_at" SET DEFAULT clock_ms();
ALTER TABLE "room_events" ALTER COLUMN "at" SET DEFAULT clock_ms();
ALTER TABLE "messages" ALTER COLUMN "created_at" SET DEFAULT clock_ms();
ALTER TABLE "tasks" ALTER COLUMN "created_at" SET DEFAULT clock_ms();
ALTER TABLE "memory_entries" ALTER COLUMN "created_at" SET DEFAULT clock_ms();
ALTER TABLE "wakes" ALTER COLUMN "created_at" SET DEFAULT clock_ms(), ALTER COLUMN "due_at" SET DEFAULT clock_ms();
ALTER TABLE "agent_run_locks" ALTER COLUMN "claimed_at" SET DEFAULT clock_ms();
ALTER TABLE "runs" ALTER COLUMN "claimed_at" SET DEFAULT clock_ms();
ALTER TABLE "run_steps" ALTER COLUMN "at" SET DEFAULT clock_ms();
ALTER TABLE "model_requests" ALTER COLUMN "claimed_at" SET DEFAULT clock_ms();
ALTER TABLE "files" ALTER COLUMN "due_at" SET DEFAULT clock_ms(), ALTER COLUMN "created_at" SET DEFAULT clock_ms();
ALTER TABLE "stored_answers" ALTER COLUMN "created_at" SET DEFAULT clock_ms();
ALTER TABLE "held_actions" ALTER COLUMN "opened_at" SET DEFAULT clock_ms(), ALTER COLUMN "changed_at" SET DEFAULT clock_ms();
ALTER TABLE "run_signals" ALTER COLUMN "created_at" SET DEFAULT clock_ms(), ALTER COLUMN "due_at" SET DEFAULT clock_ms();
ALTER TABLE "model_key_tests" ALTER COLUMN "requested_at" SET DEFAULT clock_ms(), ALTER COLUMN "due_at" SET DEFAULT clock_ms();
ALTER TABLE "audit_entries" ALTER COLUMN "at" SET DEFAULT clock_ms();
