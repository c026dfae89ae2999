// Names of the search attributes of a run, all of type Keyword. The embedded server has them; elsewhere an operator adds them.

export const ROOM_ID = 'RoomId';
export const AGENT_ID = 'AgentId';
export const COMPANY_ID = 'CompanyId';
export const RUN_ENDING = 'RunEnding';
export const RUN_STATE = 'RunState';

export const SEARCH_ATTRIBUTES = [ROOM_ID, AGENT_ID, COMPANY_ID, RUN_ENDING, RUN_STATE] as const;
