-- Budgets in tokens per UTC day, of an agent and of a company, and what each wake reserves of them.
--
-- Old code may run beside this: new columns have defaults, and it never reads them. What an old dispatcher delivers is
-- not reserved; what an old worker closes keeps its reservation in full, which counts too much and for that day only.

ALTER TABLE "companies" ADD COLUMN "tokens_per_day" BIGINT;

ALTER TABLE "agents"
    ADD COLUMN "tokens_per_day" BIGINT,
    ADD COLUMN "tokens_per_run" INTEGER NOT NULL DEFAULT 50000;

-- CreateTable
CREATE TABLE "token_reservations" (
    "agent_id" TEXT NOT NULL,
    "message_id" TEXT NOT NULL,
    "company_id" TEXT NOT NULL,
    "day" DATE NOT NULL,
    "reserved" BIGINT NOT NULL,
    "settled" BIGINT,
    "settled_at" TIMESTAMPTZ(3),

    CONSTRAINT "token_reservations_pkey" PRIMARY KEY ("agent_id","message_id")
);

-- CreateIndex
CREATE INDEX "token_reservations_agent_id_day_idx" ON "token_reservations"("agent_id", "day");

-- CreateIndex
CREATE INDEX "token_reservations_company_id_day_idx" ON "token_reservations"("company_id", "day");

-- AddForeignKey
ALTER TABLE "token_reservations" ADD CONSTRAINT "token_reservations_agent_id_message_id_fkey" FOREIGN KEY ("agent_id", "message_id") REFERENCES "wakes"("agent_id", "message_id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- What was claimed, or asked for, in a stretch of time. Rows come in the order of their time, so a summary of each range
-- of blocks is enough: a few pages for millions of rows, and next to nothing at each insert.
-- CreateIndex
CREATE INDEX "runs_claimed_at_idx" ON "runs" USING BRIN ("claimed_at");

-- CreateIndex
CREATE INDEX "wakes_created_at_idx" ON "wakes" USING BRIN ("created_at");

-- By hand from here.

ALTER TABLE "companies"
    ADD CONSTRAINT "companies_tokens_per_day_is_no_debt" CHECK ("tokens_per_day" >= 0);

ALTER TABLE "agents"
    ADD CONSTRAINT "agents_tokens_per_day_is_no_debt" CHECK ("tokens_per_day" >= 0),
    ADD CONSTRAINT "agents_tokens_per_run_is_positive" CHECK ("tokens_per_run" > 0);

ALTER TABLE "token_reservations"
    ADD CONSTRAINT "token_reservations_reserved_is_positive" CHECK ("reserved" > 0),
    ADD CONSTRAINT "token_reservations_settled_is_no_debt" CHECK ("settled" >= 0),
    ADD CONSTRAINT "token_reservations_settled_at_exactly_when_settled" CHECK (("settled" IS NULL) = ("settled_at" IS NULL));

-- Written twice, at delivery and at the ending: with room beside it the second version touches no index.
ALTER TABLE "token_reservations" SET (fillfactor = 80);
