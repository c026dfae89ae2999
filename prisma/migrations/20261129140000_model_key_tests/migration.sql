-- Tests of model keys, and API keys that end by themselves. Older code may run beside it: it reads neither, so until it is
-- gone it takes an API key past its expiry for a live one.

-- AlterTable
ALTER TABLE "api_keys" ADD COLUMN     "expires_at" TIMESTAMPTZ(3);

-- CreateTable
CREATE TABLE "model_key_tests" (
    "model_key_id" TEXT NOT NULL,
    "id" TEXT NOT NULL,
    "model" TEXT NOT NULL,
    "version" INTEGER NOT NULL,
    "state" TEXT NOT NULL DEFAULT 'pending',
    "attempts" INTEGER NOT NULL DEFAULT 0,
    "code" TEXT,
    "http_status" INTEGER,
    "requested_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "due_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "tested_at" TIMESTAMPTZ(3),

    CONSTRAINT "model_key_tests_pkey" PRIMARY KEY ("model_key_id")
);

-- AddForeignKey
ALTER TABLE "model_key_tests" ADD CONSTRAINT "model_key_tests_model_key_id_fkey" FOREIGN KEY ("model_key_id") REFERENCES "model_keys"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- ---------------------------------------------------------------------------------------------------------------------
-- By hand from here.

-- Nobody could sign in to make the operator's next key. Every row has no expiry, so there is nothing to validate later.
ALTER TABLE "api_keys"
    ADD CONSTRAINT "api_keys_operator_never_expires" CHECK ("kind" <> 'operator' OR "expires_at" IS NULL);

ALTER TABLE "model_key_tests"
    ADD CONSTRAINT "model_key_tests_state_is_known" CHECK ("state" IN ('pending', 'running', 'ok', 'failed')),
    ADD CONSTRAINT "model_key_tests_version_counts_from_one" CHECK ("version" >= 1),
    -- Each attempt is one request at most: like a run's, a test's are three, whatever crashes.
    ADD CONSTRAINT "model_key_tests_attempts_at_most_three" CHECK ("attempts" BETWEEN 0 AND 3),
    ADD CONSTRAINT "model_key_tests_running_only_attempted" CHECK ("state" <> 'running' OR "attempts" >= 1),
    ADD CONSTRAINT "model_key_tests_code_is_known" CHECK ("code" IN (
        'rate_limit', 'overloaded', 'server_error', 'timeout', 'connection', 'unreadable_answer', 'unknown',
        'quota', 'spending_limit', 'key_rejected', 'unknown_model', 'malformed_request', 'context_too_long',
        'model_declined', 'unknown_host', 'bad_certificate', 'redirect', 'address_refused',
        'replaced', 'revoked', 'suspended', 'cannot_open')),
    ADD CONSTRAINT "model_key_tests_code_exactly_when_failed" CHECK (("state" = 'failed') = ("code" IS NOT NULL)),
    ADD CONSTRAINT "model_key_tests_tested_at_exactly_when_over" CHECK (("state" IN ('ok', 'failed')) = ("tested_at" IS NOT NULL));

-- What the workers look for: the few that are open now.
CREATE INDEX "model_key_tests_open_due" ON "model_key_tests"("due_at") WHERE "state" IN ('pending', 'running');
