// The test of a model key: one tiny request through the same provider code as a run's. Not an activity: the worker's key
// tester calls it.

import { SecretBoxError } from '../workflows/policy/secret-box';
import type { KeyTestResult, TakenKeyTest } from '../prisma/store/model-keys/key-tests';
import { modelKeyBinding } from '../prisma/store/model-keys/model-keys';
import type { ActivityDeps } from './deps';
import { writeRequest, type ModelAnswer, type ModelPrompt } from './model/provider';

/** A person waits for the result, and a provider needs only seconds for one word. */
const ANSWER_MS = 30_000;

const PROMPT: ModelPrompt = { system: 'This is a test of the connection.', user: 'Answer with the word "ok".' };

export type KeyTestDeps = Pick<ActivityDeps, 'secretBox' | 'requestReply' | 'allowedModelHosts'>;

/**
 * Sends one request with the key and returns the result, or null if `signal` ended it. The request sets no limit of its
 * own, so that its result is the one that a run would get.
 */
export async function testModelKey(
  deps: KeyTestDeps,
  test: TakenKeyTest,
  signal: AbortSignal,
  onUnopened: (error: SecretBoxError) => void,
): Promise<KeyTestResult | null> {
  let apiKey: string;
  try {
    apiKey = deps.secretBox.open(test.sealedSecret, modelKeyBinding(test.keyId, test.baseUrl));
  } catch (error) {
    if (!(error instanceof SecretBoxError)) throw error;
    onUnopened(error);
    return { state: 'failed', code: 'cannot_open', httpStatus: null };
  }
  const { protocol, baseUrl, model, ownerSupplied } = test;
  const request = writeRequest({ protocol, baseUrl, model, ownerSupplied }, PROMPT);
  const answer = await deps.requestReply(request, apiKey, {
    signal,
    timeoutMs: ANSWER_MS,
    allowedHosts: deps.allowedModelHosts,
  });
  return toTestResult(answer);
}

/** Any reply proves that the key works, even an unusable reply. */
function toTestResult(answer: ModelAnswer): KeyTestResult | null {
  switch (answer.kind) {
    case 'reply':
    case 'failed':
      return { state: 'ok', httpStatus: 200 };
    case 'refused':
      return answer.code === 'model_declined'
        ? { state: 'ok', httpStatus: answer.status }
        : { state: 'failed', code: answer.code, httpStatus: answer.status };
    case 'retry':
    case 'busy':
      return { state: 'failed', code: answer.code, httpStatus: answer.status };
    case 'aborted':
      return null;
  }
}
