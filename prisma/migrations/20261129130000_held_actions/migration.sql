-- Held actions, the signals that tell a workflow of a decision, and what a run's time is counted less of. Only new tables
-- and new columns with constants for defaults: older code runs beside this, and never opens a held action.

-- AlterTable
ALTER TABLE "runs" ADD COLUMN     "decided_at" TIMESTAMPTZ(3),
ADD COLUMN     "parked_at" TIMESTAMPTZ(3),
ADD COLUMN     "parked_ms" BIGINT NOT NULL DEFAULT 0;

-- CreateTable
CREATE TABLE "held_actions" (
    "id" TEXT NOT NULL,
    "run_id" TEXT NOT NULL,
    "step_key" TEXT NOT NULL,
    "room_id" TEXT NOT NULL,
    "company_id" TEXT NOT NULL,
    "agent_id" TEXT NOT NULL,
    "kind" TEXT NOT NULL,
    "action" TEXT,
    "sha256" TEXT NOT NULL,
    "state" TEXT NOT NULL DEFAULT 'held',
    "opened_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "expires_at" TIMESTAMPTZ(3) NOT NULL,
    "changed_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "decision" TEXT,
    "decided_by" TEXT,
    "decided_by_name" TEXT,
    "decided_at" TIMESTAMPTZ(3),

    CONSTRAINT "held_actions_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "run_signals" (
    "id" TEXT NOT NULL,
    "run_id" TEXT NOT NULL,
    "kind" TEXT NOT NULL,
    "held_action_id" TEXT,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "delivered_at" TIMESTAMPTZ(3),
    "due_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT "run_signals_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE INDEX "held_actions_company_id_id_idx" ON "held_actions"("company_id", "id");

-- CreateIndex
CREATE UNIQUE INDEX "held_actions_run_id_step_key_key" ON "held_actions"("run_id", "step_key");

-- CreateIndex
CREATE UNIQUE INDEX "run_signals_held_action_id_key" ON "run_signals"("held_action_id");

-- CreateIndex
CREATE INDEX "run_signals_run_id_idx" ON "run_signals"("run_id");

-- AddForeignKey
ALTER TABLE "held_actions" ADD CONSTRAINT "held_actions_run_id_fkey" FOREIGN KEY ("run_id") REFERENCES "runs"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "run_signals" ADD CONSTRAINT "run_signals_run_id_fkey" FOREIGN KEY ("run_id") REFERENCES "runs"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "run_signals" ADD CONSTRAINT "run_signals_held_action_id_fkey" FOREIGN KEY ("held_action_id") REFERENCES "held_actions"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- ---------------------------------------------------------------------------------------------------------------------
-- By hand from here.

ALTER TABLE "runs"
    ADD CONSTRAINT "runs_parked_ms_counts_up" CHECK ("parked_ms" >= 0) NOT VALID;
ALTER TABLE "runs" VALIDATE CONSTRAINT "runs_parked_ms_counts_up";

-- held -> approved | declined | expired | superseded; approved -> executed | superseded | failed.

ALTER TABLE "held_actions"
    ADD CONSTRAINT "held_actions_kind_is_known" CHECK ("kind" IN ('reply', 'memory', 'task_update', 'task_send')),
    ADD CONSTRAINT "held_actions_key_is_of_its_kind" CHECK (split_part("step_key", ':', 1) = "kind" AND char_length("step_key") <= 64),
    ADD CONSTRAINT "held_actions_state_is_known" CHECK ("state" IN (
        'held', 'approved', 'declined', 'expired', 'superseded', 'executed', 'failed')),
    ADD CONSTRAINT "held_actions_decision_is_known" CHECK ("decision" IN ('approve', 'decline')),
    -- Nothing is carried out without a yes; expired never reads as declined. What is superseded may have had its yes.
    ADD CONSTRAINT "held_actions_decision_fits_its_state" CHECK (CASE "state"
        WHEN 'held' THEN "decision" IS NULL
        WHEN 'expired' THEN "decision" IS NULL
        WHEN 'declined' THEN "decision" IS NOT NULL AND "decision" <> 'approve'
        WHEN 'superseded' THEN "decision" IS NULL OR "decision" <> 'decline'
        ELSE "decision" IS NOT NULL AND "decision" <> 'decline' END),
    ADD CONSTRAINT "held_actions_decided_by_exactly_with_a_decision" CHECK (("decision" IS NULL) = ("decided_by" IS NULL)),
    ADD CONSTRAINT "held_actions_decider_has_a_name" CHECK (("decision" IS NULL) = ("decided_by_name" IS NULL)),
    ADD CONSTRAINT "held_actions_decided_at_exactly_with_a_decision" CHECK (("decision" IS NULL) = ("decided_at" IS NULL)),
    -- An action that can't expire would wait for ever, and its run with it.
    ADD CONSTRAINT "held_actions_expire_within_90_days" CHECK (
        "expires_at" > "opened_at" AND "expires_at" <= "opened_at" + interval '90 days'),
    ADD CONSTRAINT "held_actions_sha256_is_one" CHECK ("sha256" ~ '^[0-9a-f]{64}$');

ALTER TABLE "run_signals"
    ADD CONSTRAINT "run_signals_kind_is_known" CHECK ("kind" IN ('decision', 'recheck')),
    ADD CONSTRAINT "run_signals_action_exactly_for_decisions" CHECK (("kind" = 'decision') = ("held_action_id" IS NOT NULL));

-- What the loops look for: what waits now, and not all that ever did.

CREATE INDEX "held_actions_held_expiry" ON "held_actions"("expires_at") WHERE "state" = 'held';
CREATE INDEX "run_signals_undelivered_due" ON "run_signals"("due_at") WHERE "delivered_at" IS NULL;
CREATE INDEX "runs_in_flight_of_company" ON "runs"("company_id") WHERE "state" = 'open' AND "parked_at" IS NULL;
CREATE INDEX "runs_parked" ON "runs"("workflow_id") WHERE "state" = 'open' AND "parked_at" IS NOT NULL;

ALTER TABLE "held_actions" SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
ALTER TABLE "run_signals" SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
