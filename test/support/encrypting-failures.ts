// The part of the encrypting data converter that runs in the workflow sandbox: puts messages of failures into payloads.

import { DefaultFailureConverter } from '@temporalio/common';

export const failureConverter = new DefaultFailureConverter({ encodeCommonAttributes: true });
