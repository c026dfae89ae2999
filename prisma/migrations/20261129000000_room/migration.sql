-- The room's first tables. There is no older code, so nothing has to run beside this migration; what it must get right
-- is what later ones can't add without scanning full tables: the closed sets and the claims that never change.
--
-- The first part is what Prisma's diff of schema.prisma writes (less its CREATE SCHEMA, which asks for a right on the
-- database that a hosted role often lacks). The second is what schema.prisma can't say.
--
-- A script runs as one transaction: it is sent whole, so Postgres keeps all of it or none.

-- CreateTable
CREATE TABLE "companies" (
    "id" TEXT NOT NULL,
    "slug" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "suspended_at" TIMESTAMPTZ(3),

    CONSTRAINT "companies_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "api_keys" (
    "id" TEXT NOT NULL,
    "kind" TEXT NOT NULL,
    "role" TEXT,
    "company_id" TEXT,
    "agent_id" TEXT,
    "name" TEXT NOT NULL,
    "token_hash" BYTEA NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "revoked_at" TIMESTAMPTZ(3),

    CONSTRAINT "api_keys_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "model_keys" (
    "id" TEXT NOT NULL,
    "company_id" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "provider" TEXT NOT NULL,
    "base_url" TEXT NOT NULL,
    "owner_supplied" BOOLEAN NOT NULL,
    "sealed_secret" TEXT NOT NULL,
    "version" INTEGER NOT NULL DEFAULT 1,
    "rejected_version" INTEGER,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "revoked_at" TIMESTAMPTZ(3),

    CONSTRAINT "model_keys_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "agents" (
    "id" TEXT NOT NULL,
    "company_id" TEXT NOT NULL,
    "slug" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "always_on" BOOLEAN NOT NULL,
    "instructions" TEXT NOT NULL,
    "model" TEXT,
    "model_key_id" TEXT,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "paused_at" TIMESTAMPTZ(3),

    CONSTRAINT "agents_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "rooms" (
    "id" TEXT NOT NULL,
    "slug" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "host_company_id" TEXT NOT NULL,
    "on_crash" TEXT NOT NULL DEFAULT 'stop',
    "hop_limit" INTEGER NOT NULL DEFAULT 8,
    "run_allowance" INTEGER NOT NULL DEFAULT 1000,
    "last_seq" BIGINT NOT NULL DEFAULT 0,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "paused_at" TIMESTAMPTZ(3),
    "closed_at" TIMESTAMPTZ(3),

    CONSTRAINT "rooms_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "room_members" (
    "room_id" TEXT NOT NULL,
    "company_id" TEXT NOT NULL,
    "role" TEXT NOT NULL,
    "joined_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "left_at" TIMESTAMPTZ(3),

    CONSTRAINT "room_members_pkey" PRIMARY KEY ("room_id","company_id")
);

-- CreateTable
CREATE TABLE "invitations" (
    "id" TEXT NOT NULL,
    "room_id" TEXT NOT NULL,
    "code_hash" BYTEA NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "expires_at" TIMESTAMPTZ(3) NOT NULL,
    "redeemed_by" TEXT,
    "redeemed_at" TIMESTAMPTZ(3),

    CONSTRAINT "invitations_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "room_agents" (
    "room_id" TEXT NOT NULL,
    "agent_id" TEXT NOT NULL,
    "right_reply" TEXT NOT NULL,
    "right_memory" TEXT NOT NULL,
    "right_task_update" TEXT NOT NULL,
    "right_task_send" TEXT NOT NULL,
    "private_memory" BOOLEAN NOT NULL DEFAULT false,
    "added_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "removed_at" TIMESTAMPTZ(3),

    CONSTRAINT "room_agents_pkey" PRIMARY KEY ("room_id","agent_id")
);

-- CreateTable
CREATE TABLE "roster_names" (
    "room_id" TEXT NOT NULL,
    "name_fold" TEXT NOT NULL,
    "agent_id" TEXT NOT NULL,

    CONSTRAINT "roster_names_pkey" PRIMARY KEY ("room_id","name_fold")
);

-- CreateTable
CREATE TABLE "room_events" (
    "room_id" TEXT NOT NULL,
    "seq" BIGINT NOT NULL,
    "id" TEXT NOT NULL,
    "type" TEXT NOT NULL,
    "company_id" TEXT,
    "author_kind" TEXT NOT NULL,
    "author_id" TEXT,
    "author_name" TEXT,
    "subject_id" TEXT NOT NULL,
    "data" JSONB NOT NULL,
    "at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT "room_events_pkey" PRIMARY KEY ("room_id","seq")
);

-- CreateTable
CREATE TABLE "messages" (
    "id" TEXT NOT NULL,
    "room_id" TEXT NOT NULL,
    "seq" BIGINT NOT NULL,
    "kind" TEXT NOT NULL,
    "company_id" TEXT NOT NULL,
    "author_kind" TEXT NOT NULL,
    "author_id" TEXT NOT NULL,
    "author_name" TEXT NOT NULL,
    "text" TEXT NOT NULL,
    "hop" INTEGER NOT NULL,
    "task_id" TEXT,
    "run_id" TEXT,
    "refers_to" TEXT,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT "messages_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "message_addressees" (
    "message_id" TEXT NOT NULL,
    "agent_id" TEXT NOT NULL,
    "room_id" TEXT NOT NULL,
    "seq" BIGINT NOT NULL,

    CONSTRAINT "message_addressees_pkey" PRIMARY KEY ("message_id","agent_id")
);

-- CreateTable
CREATE TABLE "tasks" (
    "id" TEXT NOT NULL,
    "room_id" TEXT NOT NULL,
    "card_message_id" TEXT NOT NULL,
    "sender_kind" TEXT NOT NULL,
    "sender_id" TEXT NOT NULL,
    "sender_name" TEXT NOT NULL,
    "sender_company_id" TEXT NOT NULL,
    "recipient_agent_id" TEXT NOT NULL,
    "goal" TEXT NOT NULL,
    "acceptance_criteria" TEXT[] DEFAULT ARRAY[]::TEXT[],
    "priority" TEXT NOT NULL DEFAULT 'normal',
    "deadline" TEXT,
    "memory_refs" TEXT[] DEFAULT ARRAY[]::TEXT[],
    "attachments" TEXT[] DEFAULT ARRAY[]::TEXT[],
    "state" TEXT NOT NULL DEFAULT 'pending',
    "result" TEXT,
    "response_message_id" TEXT,
    "responded_at" TIMESTAMPTZ(3),
    "verdict" TEXT,
    "verdict_note" TEXT,
    "verdict_at" TIMESTAMPTZ(3),
    "run_id" TEXT,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT "tasks_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "memory_entries" (
    "id" TEXT NOT NULL,
    "room_id" TEXT NOT NULL,
    "company_id" TEXT NOT NULL,
    "author_kind" TEXT NOT NULL,
    "author_id" TEXT NOT NULL,
    "author_name" TEXT NOT NULL,
    "category" TEXT NOT NULL,
    "tags" TEXT[] DEFAULT ARRAY[]::TEXT[],
    "content" TEXT NOT NULL,
    "visibility" TEXT NOT NULL,
    "run_id" TEXT,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "deprecated_at" TIMESTAMPTZ(3),

    CONSTRAINT "memory_entries_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "wakes" (
    "id" TEXT NOT NULL,
    "agent_id" TEXT NOT NULL,
    "message_id" TEXT NOT NULL,
    "room_id" TEXT NOT NULL,
    "company_id" TEXT NOT NULL,
    "task_id" TEXT,
    "hop" INTEGER NOT NULL,
    "state" TEXT NOT NULL DEFAULT 'pending',
    "reason" TEXT,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "delivered_at" TIMESTAMPTZ(3),
    "started_at" TIMESTAMPTZ(3),
    "claimed_at" TIMESTAMPTZ(3),
    "due_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT "wakes_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "agent_run_locks" (
    "agent_id" TEXT NOT NULL,
    "message_id" TEXT NOT NULL,
    "run_id" TEXT NOT NULL,
    "workflow_id" TEXT NOT NULL,
    "temporal_run_id" TEXT,
    "claimed_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT "agent_run_locks_pkey" PRIMARY KEY ("agent_id","message_id")
);

-- CreateTable
CREATE TABLE "runs" (
    "id" TEXT NOT NULL,
    "agent_id" TEXT NOT NULL,
    "message_id" TEXT NOT NULL,
    "room_id" TEXT NOT NULL,
    "company_id" TEXT NOT NULL,
    "wake_id" TEXT NOT NULL,
    "workflow_id" TEXT NOT NULL,
    "temporal_run_id" TEXT,
    "state" TEXT NOT NULL DEFAULT 'open',
    "on_crash" TEXT NOT NULL,
    "hop" INTEGER NOT NULL,
    "time_limit_ms" INTEGER NOT NULL,
    "claimed_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "closed_at" TIMESTAMPTZ(3),
    "ending" TEXT,
    "code" TEXT,
    "cancelled_by" TEXT,
    "cancel_reason" TEXT,
    "model" TEXT,
    "model_key_id" TEXT,
    "model_key_version" INTEGER,
    "context" JSONB,
    "manifest" JSONB,
    "reply" JSONB,
    "reply_sha256" TEXT,
    "rights" JSONB,
    "retry_at" TIMESTAMPTZ(3),
    "fenced_count" INTEGER NOT NULL DEFAULT 0,
    "due_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "runs_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "run_steps" (
    "run_id" TEXT NOT NULL,
    "step_key" TEXT NOT NULL,
    "position" INTEGER NOT NULL,
    "kind" TEXT NOT NULL,
    "state" TEXT NOT NULL,
    "code" TEXT,
    "effect_id" TEXT,
    "at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT "run_steps_pkey" PRIMARY KEY ("run_id","step_key")
);

-- CreateTable
CREATE TABLE "model_requests" (
    "run_id" TEXT NOT NULL,
    "number" INTEGER NOT NULL,
    "claimed_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "ended_at" TIMESTAMPTZ(3),
    "outcome" TEXT NOT NULL DEFAULT 'in_flight',
    "code" TEXT,
    "http_status" INTEGER,
    "provider_code" TEXT,
    "input_tokens" BIGINT,
    "output_tokens" BIGINT,
    "named_wait_ms" INTEGER,

    CONSTRAINT "model_requests_pkey" PRIMARY KEY ("run_id","number")
);

-- CreateIndex
CREATE UNIQUE INDEX "companies_slug_key" ON "companies"("slug");

-- CreateIndex
CREATE UNIQUE INDEX "api_keys_token_hash_key" ON "api_keys"("token_hash");

-- CreateIndex
CREATE INDEX "api_keys_company_id_idx" ON "api_keys"("company_id");

-- CreateIndex
CREATE INDEX "model_keys_company_id_idx" ON "model_keys"("company_id");

-- CreateIndex
CREATE UNIQUE INDEX "agents_company_id_slug_key" ON "agents"("company_id", "slug");

-- CreateIndex
CREATE UNIQUE INDEX "rooms_host_company_id_slug_key" ON "rooms"("host_company_id", "slug");

-- CreateIndex
CREATE INDEX "room_members_company_id_idx" ON "room_members"("company_id");

-- CreateIndex
CREATE UNIQUE INDEX "invitations_code_hash_key" ON "invitations"("code_hash");

-- CreateIndex
CREATE INDEX "invitations_room_id_idx" ON "invitations"("room_id");

-- CreateIndex
CREATE INDEX "room_agents_agent_id_idx" ON "room_agents"("agent_id");

-- CreateIndex
CREATE UNIQUE INDEX "room_events_id_key" ON "room_events"("id");

-- CreateIndex
CREATE INDEX "room_events_subject_id_idx" ON "room_events"("subject_id");

-- CreateIndex
CREATE INDEX "messages_run_id_idx" ON "messages"("run_id");

-- CreateIndex
CREATE UNIQUE INDEX "messages_room_id_seq_key" ON "messages"("room_id", "seq");

-- CreateIndex
CREATE INDEX "message_addressees_room_id_agent_id_seq_idx" ON "message_addressees"("room_id", "agent_id", "seq" DESC);

-- CreateIndex
CREATE UNIQUE INDEX "tasks_card_message_id_key" ON "tasks"("card_message_id");

-- CreateIndex
CREATE INDEX "tasks_room_id_id_idx" ON "tasks"("room_id", "id");

-- CreateIndex
CREATE INDEX "memory_entries_room_id_id_idx" ON "memory_entries"("room_id", "id");

-- CreateIndex
CREATE INDEX "wakes_room_id_id_idx" ON "wakes"("room_id", "id");

-- CreateIndex
CREATE INDEX "wakes_message_id_idx" ON "wakes"("message_id");

-- CreateIndex
CREATE UNIQUE INDEX "wakes_agent_id_message_id_key" ON "wakes"("agent_id", "message_id");

-- CreateIndex
CREATE UNIQUE INDEX "agent_run_locks_run_id_key" ON "agent_run_locks"("run_id");

-- CreateIndex
CREATE UNIQUE INDEX "runs_wake_id_key" ON "runs"("wake_id");

-- CreateIndex
CREATE INDEX "runs_room_id_id_idx" ON "runs"("room_id", "id");

-- CreateIndex
CREATE INDEX "runs_company_id_id_idx" ON "runs"("company_id", "id");

-- CreateIndex
CREATE INDEX "runs_workflow_id_idx" ON "runs"("workflow_id");

-- CreateIndex
CREATE UNIQUE INDEX "runs_agent_id_message_id_key" ON "runs"("agent_id", "message_id");

-- AddForeignKey
ALTER TABLE "api_keys" ADD CONSTRAINT "api_keys_company_id_fkey" FOREIGN KEY ("company_id") REFERENCES "companies"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "api_keys" ADD CONSTRAINT "api_keys_agent_id_fkey" FOREIGN KEY ("agent_id") REFERENCES "agents"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "model_keys" ADD CONSTRAINT "model_keys_company_id_fkey" FOREIGN KEY ("company_id") REFERENCES "companies"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "agents" ADD CONSTRAINT "agents_company_id_fkey" FOREIGN KEY ("company_id") REFERENCES "companies"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "agents" ADD CONSTRAINT "agents_model_key_id_fkey" FOREIGN KEY ("model_key_id") REFERENCES "model_keys"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "rooms" ADD CONSTRAINT "rooms_host_company_id_fkey" FOREIGN KEY ("host_company_id") REFERENCES "companies"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "room_members" ADD CONSTRAINT "room_members_room_id_fkey" FOREIGN KEY ("room_id") REFERENCES "rooms"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "room_members" ADD CONSTRAINT "room_members_company_id_fkey" FOREIGN KEY ("company_id") REFERENCES "companies"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "invitations" ADD CONSTRAINT "invitations_room_id_fkey" FOREIGN KEY ("room_id") REFERENCES "rooms"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "invitations" ADD CONSTRAINT "invitations_redeemed_by_fkey" FOREIGN KEY ("redeemed_by") REFERENCES "companies"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "room_agents" ADD CONSTRAINT "room_agents_room_id_fkey" FOREIGN KEY ("room_id") REFERENCES "rooms"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "room_agents" ADD CONSTRAINT "room_agents_agent_id_fkey" FOREIGN KEY ("agent_id") REFERENCES "agents"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "roster_names" ADD CONSTRAINT "roster_names_room_id_fkey" FOREIGN KEY ("room_id") REFERENCES "rooms"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "room_events" ADD CONSTRAINT "room_events_room_id_fkey" FOREIGN KEY ("room_id") REFERENCES "rooms"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "messages" ADD CONSTRAINT "messages_room_id_fkey" FOREIGN KEY ("room_id") REFERENCES "rooms"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "message_addressees" ADD CONSTRAINT "message_addressees_message_id_fkey" FOREIGN KEY ("message_id") REFERENCES "messages"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "tasks" ADD CONSTRAINT "tasks_room_id_fkey" FOREIGN KEY ("room_id") REFERENCES "rooms"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "memory_entries" ADD CONSTRAINT "memory_entries_room_id_fkey" FOREIGN KEY ("room_id") REFERENCES "rooms"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "wakes" ADD CONSTRAINT "wakes_room_id_fkey" FOREIGN KEY ("room_id") REFERENCES "rooms"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "runs" ADD CONSTRAINT "runs_room_id_fkey" FOREIGN KEY ("room_id") REFERENCES "rooms"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "runs" ADD CONSTRAINT "runs_id_fkey" FOREIGN KEY ("id") REFERENCES "agent_run_locks"("run_id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "run_steps" ADD CONSTRAINT "run_steps_run_id_fkey" FOREIGN KEY ("run_id") REFERENCES "runs"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "model_requests" ADD CONSTRAINT "model_requests_run_id_fkey" FOREIGN KEY ("run_id") REFERENCES "runs"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- ---------------------------------------------------------------------------------------------------------------------
-- By hand from here.
--
-- A closed set is a CHECK and not an enum: a new value is then one statement that old code can run beside (drop, add
-- NOT VALID, validate), and taking one away is possible at all. Each name is the truth that the constraint holds, since
-- the name is all that an error shows. A CHECK passes where it is NULL: hence IS NULL and IS NOT NULL on both sides of
-- each "exactly when". Slugs, names and folds have an upper bound because an index entry over 2,704 bytes is an error
-- nobody could answer. The longest fold of a name that the API takes must stay within it.

-- A tenant and its keys

ALTER TABLE "companies"
    ADD CONSTRAINT "companies_slug_fits_its_index" CHECK (char_length("slug") BETWEEN 1 AND 64),
    ADD CONSTRAINT "companies_name_is_short" CHECK (char_length("name") BETWEEN 1 AND 200);

ALTER TABLE "api_keys"
    ADD CONSTRAINT "api_keys_kind_is_known" CHECK ("kind" IN ('operator', 'person', 'service', 'agent')),
    ADD CONSTRAINT "api_keys_role_is_known" CHECK ("role" IN ('admin', 'member')),
    ADD CONSTRAINT "api_keys_role_exactly_for_persons" CHECK (("kind" = 'person') = ("role" IS NOT NULL)),
    ADD CONSTRAINT "api_keys_operator_exactly_without_company" CHECK (("kind" = 'operator') = ("company_id" IS NULL)),
    ADD CONSTRAINT "api_keys_agent_exactly_for_agent_keys" CHECK (("kind" = 'agent') = ("agent_id" IS NOT NULL)),
    ADD CONSTRAINT "api_keys_name_is_short" CHECK (char_length("name") BETWEEN 1 AND 200);

ALTER TABLE "model_keys"
    ADD CONSTRAINT "model_keys_provider_is_known" CHECK ("provider" IN ('openai_compatible', 'openai', 'anthropic')),
    ADD CONSTRAINT "model_keys_version_counts_from_one" CHECK ("version" >= 1),
    ADD CONSTRAINT "model_keys_rejected_version_existed" CHECK ("rejected_version" BETWEEN 1 AND "version"),
    ADD CONSTRAINT "model_keys_name_is_short" CHECK (char_length("name") BETWEEN 1 AND 200);

ALTER TABLE "agents"
    ADD CONSTRAINT "agents_slug_fits_its_index" CHECK (char_length("slug") BETWEEN 1 AND 64),
    ADD CONSTRAINT "agents_name_is_short" CHECK (char_length("name") BETWEEN 1 AND 200);

-- A room and who is in it

ALTER TABLE "rooms"
    ADD CONSTRAINT "rooms_slug_fits_its_index" CHECK (char_length("slug") BETWEEN 1 AND 64),
    ADD CONSTRAINT "rooms_name_is_short" CHECK (char_length("name") BETWEEN 1 AND 200),
    ADD CONSTRAINT "rooms_on_crash_is_known" CHECK ("on_crash" IN ('stop', 'resume')),
    ADD CONSTRAINT "rooms_hop_limit_is_bounded" CHECK ("hop_limit" BETWEEN 0 AND 64),
    -- The backstop of the guarded update that spends it: two dispatchers can't overdraw it, whatever they read.
    ADD CONSTRAINT "rooms_run_allowance_is_not_overdrawn" CHECK ("run_allowance" >= 0),
    ADD CONSTRAINT "rooms_last_seq_counts_up" CHECK ("last_seq" >= 0);

ALTER TABLE "room_members"
    ADD CONSTRAINT "room_members_role_is_known" CHECK ("role" IN ('host', 'guest'));

ALTER TABLE "invitations"
    ADD CONSTRAINT "invitations_redeemed_by_someone_sometime" CHECK (("redeemed_by" IS NULL) = ("redeemed_at" IS NULL));

ALTER TABLE "room_agents"
    ADD CONSTRAINT "room_agents_right_reply_is_known" CHECK ("right_reply" IN ('go', 'hold', 'refuse')),
    ADD CONSTRAINT "room_agents_right_memory_is_known" CHECK ("right_memory" IN ('go', 'hold', 'refuse')),
    ADD CONSTRAINT "room_agents_right_task_update_is_known" CHECK ("right_task_update" IN ('go', 'hold', 'refuse')),
    ADD CONSTRAINT "room_agents_right_task_send_is_known" CHECK ("right_task_send" IN ('go', 'hold', 'refuse'));

ALTER TABLE "roster_names"
    -- Octets, not characters: folding (NFKC) makes up to 18 characters of one.
    ADD CONSTRAINT "roster_names_fold_fits_its_index" CHECK (octet_length("name_fold") BETWEEN 1 AND 2048);

-- What was said

ALTER TABLE "room_events"
    ADD CONSTRAINT "room_events_seq_counts_from_one" CHECK ("seq" >= 1),
    ADD CONSTRAINT "room_events_type_is_known" CHECK ("type" IN (
        'message', 'task', 'task_response', 'task_verdict', 'memory', 'memory_deprecation',
        'member_joined', 'member_left', 'agent_added', 'agent_removed', 'file_added', 'task_started',
        'wake_suppressed', 'run_ended', 'room_paused', 'room_resumed', 'room_closed', 'redacted')),
    ADD CONSTRAINT "room_events_author_kind_is_known" CHECK ("author_kind" IN ('person', 'service', 'agent', 'system')),
    ADD CONSTRAINT "room_events_author_exactly_unless_system" CHECK (("author_kind" = 'system') = ("author_id" IS NULL));

ALTER TABLE "messages"
    ADD CONSTRAINT "messages_seq_counts_from_one" CHECK ("seq" >= 1),
    ADD CONSTRAINT "messages_kind_is_known" CHECK ("kind" IN ('text', 'task_card', 'response_card')),
    ADD CONSTRAINT "messages_author_kind_is_known" CHECK ("author_kind" IN ('person', 'service', 'agent')),
    ADD CONSTRAINT "messages_hop_counts_up" CHECK ("hop" >= 0),
    ADD CONSTRAINT "messages_task_exactly_for_cards" CHECK (("kind" = 'text') = ("task_id" IS NULL));

ALTER TABLE "tasks"
    ADD CONSTRAINT "tasks_sender_kind_is_known" CHECK ("sender_kind" IN ('person', 'service', 'agent')),
    ADD CONSTRAINT "tasks_priority_is_known" CHECK ("priority" IN ('low', 'normal', 'high', 'urgent')),
    ADD CONSTRAINT "tasks_state_is_known" CHECK ("state" IN ('pending', 'in_progress', 'done', 'failed', 'escalated')),
    -- A redaction empties the result; it does not take it away.
    ADD CONSTRAINT "tasks_result_exactly_when_answered" CHECK (("state" IN ('done', 'failed', 'escalated')) = ("result" IS NOT NULL)),
    ADD CONSTRAINT "tasks_response_card_exactly_when_answered" CHECK (("state" IN ('done', 'failed', 'escalated')) = ("response_message_id" IS NOT NULL)),
    ADD CONSTRAINT "tasks_responded_at_exactly_when_answered" CHECK (("state" IN ('done', 'failed', 'escalated')) = ("responded_at" IS NOT NULL)),
    ADD CONSTRAINT "tasks_verdict_is_known" CHECK ("verdict" IN ('accepted', 'rejected')),
    ADD CONSTRAINT "tasks_verdict_only_on_an_answer" CHECK ("verdict" IS NULL OR "state" IN ('done', 'failed', 'escalated')),
    ADD CONSTRAINT "tasks_verdict_at_exactly_with_verdict" CHECK (("verdict" IS NULL) = ("verdict_at" IS NULL)),
    ADD CONSTRAINT "tasks_verdict_note_only_with_verdict" CHECK ("verdict_note" IS NULL OR "verdict" IS NOT NULL);

ALTER TABLE "memory_entries"
    ADD CONSTRAINT "memory_entries_author_kind_is_known" CHECK ("author_kind" IN ('person', 'service', 'agent')),
    ADD CONSTRAINT "memory_entries_category_is_known" CHECK ("category" IN ('decision', 'requirement', 'dependency', 'fact', 'other')),
    ADD CONSTRAINT "memory_entries_visibility_is_known" CHECK ("visibility" IN ('shared', 'private'));

-- A wake: pending -> delivered -> claimed, or suppressed from pending, which is final. Nothing goes back, so a wake
-- that was delivered keeps delivered_at whoever claims it, worker or reconciler. The start's acknowledgement may be
-- lost, or come after the claim: started_at says nothing about claimed_at.

ALTER TABLE "wakes"
    ADD CONSTRAINT "wakes_hop_counts_up" CHECK ("hop" >= 0),
    ADD CONSTRAINT "wakes_state_is_known" CHECK ("state" IN ('pending', 'delivered', 'claimed', 'suppressed')),
    ADD CONSTRAINT "wakes_reason_is_known" CHECK ("reason" IN (
        'paused', 'allowance', 'hop_limit', 'key_rejected', 'budget', 'not_a_member', 'room_closed', 'suspended')),
    ADD CONSTRAINT "wakes_reason_exactly_when_suppressed" CHECK (("state" = 'suppressed') = ("reason" IS NOT NULL)),
    ADD CONSTRAINT "wakes_delivered_at_exactly_once_delivered" CHECK (("state" IN ('delivered', 'claimed')) = ("delivered_at" IS NOT NULL)),
    ADD CONSTRAINT "wakes_started_only_once_delivered" CHECK ("started_at" IS NULL OR "delivered_at" IS NOT NULL),
    ADD CONSTRAINT "wakes_claimed_at_exactly_when_claimed" CHECK (("state" = 'claimed') = ("claimed_at" IS NOT NULL));

-- A run and its ledger

ALTER TABLE "runs"
    ADD CONSTRAINT "runs_state_is_known" CHECK ("state" IN ('open', 'closed')),
    ADD CONSTRAINT "runs_ending_is_known" CHECK ("ending" IN (
        'replied', 'silent', 'partial', 'failed', 'not_allowed', 'refused', 'busy', 'timed_out',
        'declined', 'expired', 'cancelled', 'lost')),
    ADD CONSTRAINT "runs_ending_exactly_when_closed" CHECK (("state" = 'closed') = ("ending" IS NOT NULL)),
    ADD CONSTRAINT "runs_closed_at_exactly_when_closed" CHECK (("state" = 'closed') = ("closed_at" IS NOT NULL)),
    ADD CONSTRAINT "runs_on_crash_is_known" CHECK ("on_crash" IN ('stop', 'resume')),
    ADD CONSTRAINT "runs_hop_is_above_a_message" CHECK ("hop" >= 1),
    ADD CONSTRAINT "runs_time_limit_is_positive" CHECK ("time_limit_ms" > 0),
    ADD CONSTRAINT "runs_model_key_version_counts_from_one" CHECK ("model_key_version" >= 1),
    ADD CONSTRAINT "runs_context_erased_when_closed" CHECK ("state" = 'open' OR "context" IS NULL),
    -- A redaction takes the reply away; that one was stored, and with which rights, stays.
    ADD CONSTRAINT "runs_reply_has_its_hash" CHECK ("reply" IS NULL OR "reply_sha256" IS NOT NULL),
    ADD CONSTRAINT "runs_rights_exactly_with_a_reply" CHECK (("reply_sha256" IS NULL) = ("rights" IS NULL)),
    ADD CONSTRAINT "runs_fenced_count_counts_up" CHECK ("fenced_count" >= 0);

ALTER TABLE "run_steps"
    ADD CONSTRAINT "run_steps_kind_is_known" CHECK ("kind" IN ('reply', 'memory', 'task_update', 'task_send')),
    ADD CONSTRAINT "run_steps_key_is_of_its_kind" CHECK (split_part("step_key", ':', 1) = "kind" AND char_length("step_key") <= 64),
    ADD CONSTRAINT "run_steps_state_is_known" CHECK ("state" IN (
        'done', 'failed', 'declined', 'expired', 'refused', 'superseded', 'not_reached')),
    ADD CONSTRAINT "run_steps_position_is_bounded" CHECK ("position" BETWEEN 0 AND 100);

ALTER TABLE "model_requests"
    -- The promise "at most three requests, whatever crashes": with the primary key there is no room for a fourth.
    ADD CONSTRAINT "model_requests_number_at_most_three" CHECK ("number" BETWEEN 1 AND 3),
    ADD CONSTRAINT "model_requests_outcome_is_known" CHECK ("outcome" IN (
        'in_flight', 'answered', 'retry', 'busy', 'refused', 'failed', 'aborted', 'unknown')),
    ADD CONSTRAINT "model_requests_ended_at_exactly_unless_in_flight" CHECK (("outcome" = 'in_flight') = ("ended_at" IS NULL));

-- What the loops look for. Partial, so that each holds what is open now and not all that ever was: a dispatcher's
-- look costs the same on the first day and after a hundred million wakes. Prisma does not see partial indexes.

CREATE INDEX "wakes_pending_due" ON "wakes"("due_at") WHERE "state" = 'pending';
CREATE INDEX "wakes_delivered_due" ON "wakes"("due_at") WHERE "state" = 'delivered';
CREATE INDEX "runs_open_due" ON "runs"("due_at") WHERE "state" = 'open';
CREATE INDEX "tasks_open_of_recipient" ON "tasks"("recipient_agent_id", "room_id", "id") WHERE "state" IN ('pending', 'in_progress');

-- Room for what is updated in place. Every event raises rooms.last_seq: with half a page free the new version fits
-- beside the old one (a HOT update: no index is touched, and the next read prunes it). A run is written three or four
-- times, a model request twice.

ALTER TABLE "rooms" SET (fillfactor = 50);
ALTER TABLE "runs" SET (fillfactor = 70);
ALTER TABLE "model_requests" SET (fillfactor = 80);

-- A wake leaves two dead entries in the small indexes above and a closed run leaves its erased context in TOAST. By
-- default they are vacuumed once a fifth of the table is dead, which in a table that only grows is ever later.

ALTER TABLE "wakes" SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
ALTER TABLE "runs" SET (
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
    toast.autovacuum_vacuum_scale_factor = 0.01, toast.autovacuum_vacuum_threshold = 1000);

-- The claim outlives every bug: no statement of ours, of an operator or of a test cleaning up changes one. ALWAYS: a
-- session in replica mode (a restore, a subscriber) is refused too.

CREATE FUNCTION "refuse_change_of_claims"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% on agent_run_locks refused: a claim is never updated, never deleted, never released', TG_OP
        USING ERRCODE = 'object_not_in_prerequisite_state',
              HINT = 'A message whose run ended short is asked again by a new message.';
END;
$$;

CREATE TRIGGER "agent_run_locks_never_change" BEFORE UPDATE OR DELETE ON "agent_run_locks"
    FOR EACH ROW EXECUTE FUNCTION "refuse_change_of_claims"();
CREATE TRIGGER "agent_run_locks_never_truncated" BEFORE TRUNCATE ON "agent_run_locks"
    FOR EACH STATEMENT EXECUTE FUNCTION "refuse_change_of_claims"();
ALTER TABLE "agent_run_locks" ENABLE ALWAYS TRIGGER "agent_run_locks_never_change";
ALTER TABLE "agent_run_locks" ENABLE ALWAYS TRIGGER "agent_run_locks_never_truncated";
