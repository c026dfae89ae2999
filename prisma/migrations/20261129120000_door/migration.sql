-- Answers kept under an Idempotency-Key. Old code may run beside it: it knows nothing of the table, and answers a repeated
-- key by doing the write again, as it always did.

-- CreateTable
CREATE TABLE "stored_answers" (
    "holder_id" TEXT NOT NULL,
    "path" TEXT NOT NULL,
    "key" TEXT NOT NULL,
    "body_sha256" BYTEA NOT NULL,
    "status" INTEGER NOT NULL,
    "body" JSON,
    "subject_id" TEXT,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT "stored_answers_pkey" PRIMARY KEY ("holder_id","path","key")
);

-- CreateIndex
CREATE INDEX "stored_answers_created_at_idx" ON "stored_answers"("created_at");

-- CreateIndex
CREATE INDEX "stored_answers_subject_id_idx" ON "stored_answers"("subject_id");

ALTER TABLE "stored_answers"
  ADD CONSTRAINT "stored_answers_only_success_is_kept" CHECK ("status" BETWEEN 200 AND 299),
  ADD CONSTRAINT "stored_answers_body_is_known_by_its_sha256" CHECK (octet_length("body_sha256") = 32);
