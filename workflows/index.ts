// The workflow bundle's entry: exports only.

export { agentRun } from './agent-run';
