-- What a dispatcher asks to share its starts among companies, and the trace that a wake belongs to.
--
-- Old code may run beside this: the column is empty where nobody traces, and it never reads it. An old dispatcher knows no
-- cap, so while one runs, the cap is not kept; the index that it went by is replaced by one that serves it too.

-- W3C trace context of the request, or of the run's step, that caused the wake: ids only.
ALTER TABLE "wakes" ADD COLUMN "traceparent" TEXT;

-- By hand from here.

ALTER TABLE "wakes"
    ADD CONSTRAINT "wakes_traceparent_is_w3c" CHECK ("traceparent" ~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$');

-- The oldest pending wakes of each company, and which companies have any.
CREATE INDEX "wakes_pending_of_company" ON "wakes"("company_id", "due_at") WHERE "state" = 'pending';
DROP INDEX "wakes_pending_due";

-- How many runs of a company are in flight: delivered and not claimed, or claimed and open.
CREATE INDEX "wakes_delivered_of_company" ON "wakes"("company_id") WHERE "state" = 'delivered';
CREATE INDEX "runs_open_of_company" ON "runs"("company_id") WHERE "state" = 'open';
