// The half of the encrypting data converter that runs in the workflow's sandbox: messages of failures become payloads.

import { DefaultFailureConverter } from '@temporalio/common';

export const failureConverter = new DefaultFailureConverter({ encodeCommonAttributes: true });
