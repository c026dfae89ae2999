-- A number for each change of a held action, by which its company's feed goes on. Counted per company under the lock of a
-- row of its own, so that numbers come in commit order and none is handed out below one that was read.
--
-- Old code may run beside this: a trigger numbers what it writes.

-- CreateTable
CREATE TABLE "held_action_counters" (
    "company_id" TEXT NOT NULL,
    "last" BIGINT NOT NULL,

    CONSTRAINT "held_action_counters_pkey" PRIMARY KEY ("company_id")
);

-- AlterTable
ALTER TABLE "held_actions" ADD COLUMN "change" BIGINT NOT NULL DEFAULT 0;

-- By hand from here.

CREATE FUNCTION "number_change_of_held_action"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO "held_action_counters" ("company_id", "last") VALUES (NEW."company_id", 1)
        ON CONFLICT ("company_id") DO UPDATE SET "last" = "held_action_counters"."last" + 1
        RETURNING "last" INTO NEW."change";
    RETURN NEW;
END;
$$;

CREATE TRIGGER "held_actions_change_is_numbered" BEFORE INSERT OR UPDATE OF "state" ON "held_actions"
    FOR EACH ROW EXECUTE FUNCTION "number_change_of_held_action"();

-- What stands already, in the order in which it came to stand.
UPDATE "held_actions" SET "state" = "state" WHERE "change" = 0;

-- CreateIndex
CREATE UNIQUE INDEX "held_actions_company_id_change_key" ON "held_actions"("company_id", "change");
