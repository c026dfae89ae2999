// The entry of the bench's workflow bundle: exports only.

export { bareRun } from './bare-workflow';
export { agentRun } from './seven-workflow';
