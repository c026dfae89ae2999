// Every column whose values are a closed set, with the constraint that holds the set.

import { AUDIT_ACTIONS } from '../../prisma/store/access/audit';
import { KEY_TEST_CODES } from '../../prisma/store/model-keys/key-tests';
import {
  STEP_KINDS,
  DECISIONS,
  ENDINGS,
  HELD_ACTION_STATES,
  MEMORY_CATEGORIES,
  MEMORY_VISIBILITIES,
  ON_CRASH,
  REFUSAL_CODES,
  RETRY_CODES,
  RIGHTS,
  RUN_SIGNAL_KINDS,
  STEP_STATES,
  SUPPRESSED_REASONS,
  TASK_OUTCOMES,
  TASK_PRIORITIES,
  WAKE_STATES,
} from '../../workflows/contract';
import { FILE_MEDIA_TYPES, FILE_STATES, UNREADABLE_CODES } from '../../prisma/store/files/files';
import { ANSWERED, AUTHORS, CLOSED, decided, NOW, type Row } from './valid-rows';

/** Every closed set, and the other columns that a row needs for each of its values. */
export const CLOSED_SETS: readonly {
  constraint: string;
  column: string;
  values: readonly string[];
  with?: (value: string) => Row;
}[] = [
  {
    constraint: 'api_keys_kind_is_known',
    column: 'kind',
    values: ['operator', 'person', 'service', 'agent'],
    with: (kind) => ({
      company_id: kind === 'operator' ? null : 'company_1',
      role: kind === 'person' ? 'member' : null,
      agent_id: kind === 'agent' ? 'agent_1' : null,
    }),
  },
  {
    constraint: 'api_keys_role_is_known',
    column: 'role',
    values: ['admin', 'member'],
    with: () => ({ kind: 'person' }),
  },
  {
    constraint: 'model_keys_provider_is_known',
    column: 'provider',
    values: ['openai_compatible', 'openai', 'anthropic'],
  },
  {
    constraint: 'audit_entries_actor_kind_is_known',
    column: 'actor_kind',
    values: ['operator', 'person'],
    with: (kind) => ({ actor_company_id: kind === 'operator' ? null : 'company_1' }),
  },
  { constraint: 'audit_entries_action_is_known', column: 'action', values: AUDIT_ACTIONS },
  {
    constraint: 'model_key_tests_state_is_known',
    column: 'state',
    values: ['pending', 'running', 'ok', 'failed'],
    with: (state) => ({
      attempts: 1,
      code: state === 'failed' ? 'unknown' : null,
      tested_at: state === 'ok' || state === 'failed' ? NOW : null,
    }),
  },
  {
    constraint: 'model_key_tests_code_is_known',
    column: 'code',
    values: [...RETRY_CODES, ...REFUSAL_CODES, ...KEY_TEST_CODES],
    with: () => ({ state: 'failed', tested_at: NOW }),
  },
  { constraint: 'rooms_on_crash_is_known', column: 'on_crash', values: ON_CRASH },
  { constraint: 'room_members_role_is_known', column: 'role', values: ['host', 'guest'] },
  ...STEP_KINDS.map((kind) => ({
    constraint: `room_agents_right_${kind}_is_known`,
    column: `right_${kind}`,
    values: RIGHTS,
  })),
  {
    constraint: 'room_events_type_is_known',
    column: 'type',
    values: [
      'message',
      'task',
      'task_response',
      'task_verdict',
      'memory',
      'memory_deprecation',
      'member_joined',
      'member_left',
      'agent_added',
      'agent_removed',
      'file_added',
      'task_started',
      'wake_suppressed',
      'run_ended',
      'room_paused',
      'room_resumed',
      'room_closed',
      'redacted',
    ],
  },
  {
    constraint: 'room_events_author_kind_is_known',
    column: 'author_kind',
    values: [...AUTHORS, 'system'],
    with: (kind) => ({ author_id: kind === 'system' ? null : 'key_1' }),
  },
  {
    constraint: 'messages_kind_is_known',
    column: 'kind',
    values: ['text', 'task_card', 'response_card'],
    with: (kind) => ({ task_id: kind === 'text' ? null : 'task_1' }),
  },
  { constraint: 'messages_author_kind_is_known', column: 'author_kind', values: AUTHORS },
  { constraint: 'tasks_sender_kind_is_known', column: 'sender_kind', values: AUTHORS },
  { constraint: 'tasks_priority_is_known', column: 'priority', values: TASK_PRIORITIES },
  {
    constraint: 'tasks_state_is_known',
    column: 'state',
    values: ['pending', 'in_progress', ...TASK_OUTCOMES],
    with: (state) => ((TASK_OUTCOMES as readonly string[]).includes(state) ? ANSWERED : {}),
  },
  {
    constraint: 'tasks_verdict_is_known',
    column: 'verdict',
    values: ['accepted', 'rejected'],
    with: () => ({ ...ANSWERED, verdict_at: NOW }),
  },
  { constraint: 'memory_entries_author_kind_is_known', column: 'author_kind', values: AUTHORS },
  { constraint: 'memory_entries_category_is_known', column: 'category', values: MEMORY_CATEGORIES },
  { constraint: 'memory_entries_visibility_is_known', column: 'visibility', values: MEMORY_VISIBILITIES },
  { constraint: 'files_author_kind_is_known', column: 'author_kind', values: AUTHORS },
  { constraint: 'files_media_type_is_known', column: 'media_type', values: FILE_MEDIA_TYPES },
  {
    constraint: 'files_state_is_known',
    column: 'state',
    values: FILE_STATES,
    with: (state) => ({
      parsed_at: state === 'processing' ? null : NOW,
      code: state === 'unreadable' ? 'binary' : null,
    }),
  },
  {
    constraint: 'files_code_is_known',
    column: 'code',
    values: UNREADABLE_CODES,
    with: () => ({ state: 'unreadable', parsed_at: NOW }),
  },
  {
    constraint: 'wakes_state_is_known',
    column: 'state',
    values: WAKE_STATES,
    with: (state) => ({
      reason: state === 'suppressed' ? 'paused' : null,
      delivered_at: state === 'delivered' || state === 'claimed' ? NOW : null,
      claimed_at: state === 'claimed' ? NOW : null,
    }),
  },
  {
    constraint: 'wakes_reason_is_known',
    column: 'reason',
    values: SUPPRESSED_REASONS,
    with: () => ({ state: 'suppressed' }),
  },
  {
    constraint: 'runs_state_is_known',
    column: 'state',
    values: ['open', 'closed'],
    with: (state) => (state === 'closed' ? CLOSED : {}),
  },
  { constraint: 'runs_ending_is_known', column: 'ending', values: ENDINGS, with: () => CLOSED },
  { constraint: 'runs_on_crash_is_known', column: 'on_crash', values: ON_CRASH },
  {
    constraint: 'run_steps_kind_is_known',
    column: 'kind',
    values: STEP_KINDS,
    with: (kind) => ({ step_key: `${kind}:7` }),
  },
  { constraint: 'run_steps_state_is_known', column: 'state', values: STEP_STATES },
  {
    constraint: 'model_requests_outcome_is_known',
    column: 'outcome',
    values: ['in_flight', 'answered', 'retry', 'busy', 'refused', 'failed', 'aborted', 'unknown'],
    with: (outcome) => ({ ended_at: outcome === 'in_flight' ? null : NOW }),
  },
  {
    constraint: 'held_actions_kind_is_known',
    column: 'kind',
    values: STEP_KINDS,
    with: (kind) => ({ step_key: `${kind}:7` }),
  },
  {
    constraint: 'held_actions_state_is_known',
    column: 'state',
    values: HELD_ACTION_STATES,
    with: (state) => {
      if (state === 'held' || state === 'expired' || state === 'superseded') return {};
      return decided(state === 'declined' ? 'decline' : 'approve');
    },
  },
  {
    constraint: 'held_actions_decision_is_known',
    column: 'decision',
    values: DECISIONS,
    with: (decision) => ({ ...decided(decision), state: decision === 'decline' ? 'declined' : 'approved' }),
  },
  { constraint: 'held_action_changes_state_is_known', column: 'state', values: HELD_ACTION_STATES },
  {
    constraint: 'run_signals_kind_is_known',
    column: 'kind',
    values: RUN_SIGNAL_KINDS,
    with: (kind) => ({ held_action_id: kind === 'decision' ? 'held_1' : null }),
  },
];
