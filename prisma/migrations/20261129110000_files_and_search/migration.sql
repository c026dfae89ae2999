-- Files, the passages they are cut into, and the search of passages and shared memory.
--
-- Code from before runs beside it: it names the columns that it reads and writes, and knows nothing of these. Adding the
-- search column rewrites memory_entries under a lock: seconds for a hundred thousand lines.

-- CreateTable
CREATE TABLE "files" (
    "id" TEXT NOT NULL,
    "room_id" TEXT NOT NULL,
    "company_id" TEXT NOT NULL,
    "author_kind" TEXT NOT NULL,
    "author_id" TEXT NOT NULL,
    "author_name" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "media_type" TEXT NOT NULL,
    "size_bytes" INTEGER NOT NULL,
    "sha256" TEXT NOT NULL,
    "state" TEXT NOT NULL DEFAULT 'processing',
    "code" TEXT,
    "pages" INTEGER,
    "attempts" INTEGER NOT NULL DEFAULT 0,
    "due_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "parsed_at" TIMESTAMPTZ(3),
    "redacted_at" TIMESTAMPTZ(3),

    CONSTRAINT "files_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "file_contents" (
    "file_id" TEXT NOT NULL,
    "bytes" BYTEA NOT NULL,

    CONSTRAINT "file_contents_pkey" PRIMARY KEY ("file_id")
);

-- A lexeme of a search column is a word of the text, or names a column's value behind a word and a space, as in
-- 'room room_01kb…': the parser makes no lexeme with a space in it, so no text can pass for one. With the room in the
-- index, a word that is common in a thousand rooms costs a search in one of them nothing.

-- IMMUTABLE is a promise: array_to_string is not in general, and is for text.
CREATE FUNCTION "memory_search"("room_id" text, "category" text, "author_id" text, "tags" text[], "content" text)
RETURNS tsvector LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN pg_catalog.to_tsvector('pg_catalog.simple', "content" || ' ' || pg_catalog.array_to_string("tags", ' '))
    || pg_catalog.array_to_tsvector(
        ARRAY['room ' || "room_id", 'category ' || "category", 'author ' || "author_id"]
        || COALESCE((SELECT pg_catalog.array_agg('tag ' || t) FROM pg_catalog.unnest("tags") AS x(t)), '{}'));

CREATE FUNCTION "passage_search"("room_id" text, "file_id" text, "body" text)
RETURNS tsvector LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN pg_catalog.to_tsvector('pg_catalog.simple', "body")
    || pg_catalog.array_to_tsvector(ARRAY['room ' || "room_id", 'file ' || "file_id"]);

-- CreateTable
CREATE TABLE "passages" (
    "id" TEXT NOT NULL,
    "file_id" TEXT NOT NULL,
    "room_id" TEXT NOT NULL,
    "number" INTEGER NOT NULL,
    "text" TEXT NOT NULL,
    "page" INTEGER,
    "line" INTEGER,
    "start" INTEGER NOT NULL,
    "search" tsvector GENERATED ALWAYS AS (passage_search(room_id, file_id, text)) STORED,

    CONSTRAINT "passages_pkey" PRIMARY KEY ("id")
);

-- AlterTable
ALTER TABLE "memory_entries" ADD COLUMN "search" tsvector
    GENERATED ALWAYS AS (memory_search(room_id, category, author_id, tags, content)) STORED;

-- CreateIndex
CREATE INDEX "files_room_id_id_idx" ON "files"("room_id", "id");

-- CreateIndex
CREATE UNIQUE INDEX "passages_file_id_number_key" ON "passages"("file_id", "number");

-- CreateIndex
CREATE INDEX "passages_room_id_id_idx" ON "passages"("room_id", "id");

-- CreateIndex
CREATE INDEX "passages_search_idx" ON "passages" USING GIN ("search");

-- CreateIndex
CREATE INDEX "memory_entries_room_id_created_at_idx" ON "memory_entries"("room_id", "created_at");

-- CreateIndex
CREATE INDEX "memory_entries_search_idx" ON "memory_entries" USING GIN ("search");

-- AddForeignKey
ALTER TABLE "files" ADD CONSTRAINT "files_room_id_fkey" FOREIGN KEY ("room_id") REFERENCES "rooms"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "file_contents" ADD CONSTRAINT "file_contents_file_id_fkey" FOREIGN KEY ("file_id") REFERENCES "files"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "passages" ADD CONSTRAINT "passages_file_id_fkey" FOREIGN KEY ("file_id") REFERENCES "files"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- ---------------------------------------------------------------------------------------------------------------------
-- By hand from here.

ALTER TABLE "files"
    ADD CONSTRAINT "files_author_kind_is_known" CHECK ("author_kind" IN ('person', 'service', 'agent')),
    ADD CONSTRAINT "files_name_is_short" CHECK (char_length("name") <= 500),
    ADD CONSTRAINT "files_name_exactly_unless_redacted" CHECK (("name" = '') = ("redacted_at" IS NOT NULL)),
    ADD CONSTRAINT "files_media_type_is_known" CHECK ("media_type" IN (
        'text/plain', 'text/markdown', 'text/csv', 'application/json', 'text/html', 'application/pdf')),
    ADD CONSTRAINT "files_size_is_not_negative" CHECK ("size_bytes" >= 0),
    ADD CONSTRAINT "files_state_is_known" CHECK ("state" IN ('processing', 'ready', 'unreadable')),
    ADD CONSTRAINT "files_code_is_known" CHECK ("code" IN (
        'binary', 'no_text', 'broken', 'encrypted', 'too_many_pages', 'too_much_text', 'too_much_memory', 'too_slow',
        'parser_failed', 'redacted')),
    ADD CONSTRAINT "files_code_exactly_when_unreadable" CHECK (("state" = 'unreadable') = ("code" IS NOT NULL)),
    ADD CONSTRAINT "files_parsed_at_exactly_unless_processing" CHECK (("state" = 'processing') = ("parsed_at" IS NULL)),
    ADD CONSTRAINT "files_attempts_count_up" CHECK ("attempts" >= 0);

ALTER TABLE "passages"
    ADD CONSTRAINT "passages_number_counts_from_one" CHECK ("number" >= 1),
    ADD CONSTRAINT "passages_have_a_page_or_a_line" CHECK (("page" IS NULL) <> ("line" IS NULL));

-- What the parser's loop looks for, and what a run reads of a room's memory, newest first: what is deprecated, or another
-- company's, is not passed over one by one.

CREATE INDEX "files_processing_due" ON "files"("due_at") WHERE "state" = 'processing';
CREATE INDEX "memory_entries_shared_current" ON "memory_entries"("room_id", "id")
    WHERE "visibility" = 'shared' AND "deprecated_at" IS NULL;
CREATE INDEX "memory_entries_private_current" ON "memory_entries"("room_id", "company_id", "id")
    WHERE "visibility" = 'private' AND "deprecated_at" IS NULL;
