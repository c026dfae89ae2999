-- Redaction, and who did what. Both only add: code from before runs beside this, and shows redacted things as empty ones.

-- AlterTable
ALTER TABLE "messages" ADD COLUMN "redacted_at" TIMESTAMPTZ(3);

-- AlterTable
ALTER TABLE "tasks" ADD COLUMN "redacted_at" TIMESTAMPTZ(3);

-- AlterTable
ALTER TABLE "memory_entries" ADD COLUMN "redacted_at" TIMESTAMPTZ(3);

-- CreateTable
CREATE TABLE "audit_entries" (
    "id" TEXT NOT NULL,
    "company_id" TEXT NOT NULL,
    "actor_kind" TEXT NOT NULL,
    "actor_id" TEXT NOT NULL,
    "actor_name" TEXT NOT NULL,
    "actor_company_id" TEXT,
    "action" TEXT NOT NULL,
    "subject_id" TEXT NOT NULL,
    "room_id" TEXT,
    "details" JSONB NOT NULL,
    "at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT "audit_entries_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE INDEX "audit_entries_company_id_id_idx" ON "audit_entries"("company_id", "id");

-- ---------------------------------------------------------------------------------------------------------------------
-- By hand from here.

ALTER TABLE "audit_entries"
    ADD CONSTRAINT "audit_entries_actor_kind_is_known" CHECK ("actor_kind" IN ('operator', 'person')),
    ADD CONSTRAINT "audit_entries_actor_company_exactly_unless_operator" CHECK (("actor_kind" = 'operator') = ("actor_company_id" IS NULL)),
    ADD CONSTRAINT "audit_entries_action_is_known" CHECK ("action" IN (
        'company.created', 'company.suspended', 'company.resumed', 'company.changed',
        'key.created', 'key.rotated', 'key.revoked',
        'model_key.created', 'model_key.changed', 'model_key.revoked', 'model_key.tested',
        'agent.created', 'agent.changed', 'agent.paused', 'agent.resumed',
        'room.created', 'room.changed', 'room.closed', 'room.paused', 'room.resumed',
        'invitation.created', 'member.joined', 'member.left',
        'roster.added', 'roster.changed', 'roster.removed',
        'run.cancelled', 'held_action.approved', 'held_action.declined', 'redaction.made'));

CREATE FUNCTION "refuse_change_of_the_audit"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% on audit_entries refused: the audit is append-only', TG_OP
        USING ERRCODE = 'object_not_in_prerequisite_state';
END;
$$;

CREATE TRIGGER "audit_entries_never_change" BEFORE UPDATE OR DELETE ON "audit_entries"
    FOR EACH ROW EXECUTE FUNCTION "refuse_change_of_the_audit"();
CREATE TRIGGER "audit_entries_never_truncated" BEFORE TRUNCATE ON "audit_entries"
    FOR EACH STATEMENT EXECUTE FUNCTION "refuse_change_of_the_audit"();
ALTER TABLE "audit_entries" ENABLE ALWAYS TRIGGER "audit_entries_never_change";
ALTER TABLE "audit_entries" ENABLE ALWAYS TRIGGER "audit_entries_never_truncated";
