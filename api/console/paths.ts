// Where the console's pages are.

/** Also what its cookie is sent to, and nothing else. */
export const CONSOLE = '/console';

export const PATHS = {
  signIn: `${CONSOLE}/sign-in`,
  signOut: `${CONSOLE}/sign-out`,
  rooms: `${CONSOLE}/rooms`,
  heldActions: `${CONSOLE}/held-actions`,
  usage: `${CONSOLE}/usage`,
  news: `${CONSOLE}/news`,
  room: (room: string) => `${CONSOLE}/rooms/${encodeURIComponent(room)}`,
  inRoom: (room: string, what: string) => `${CONSOLE}/rooms/${encodeURIComponent(room)}/${what}`,
  file: (room: string, file: string) =>
    `${CONSOLE}/rooms/${encodeURIComponent(room)}/files/${encodeURIComponent(file)}`,
  heldAction: (held: string, what = '') => `${CONSOLE}/held-actions/${encodeURIComponent(held)}${what}`,
  run: (run: string, what = '') => `${CONSOLE}/runs/${encodeURIComponent(run)}${what}`,
} as const;

/** A path of the console to go on to, or the first page: never an address elsewhere. */
export function ownPath(given: string | null | undefined): string {
  return given !== undefined && given !== null && /^\/console\/[A-Za-z0-9/_?=&.-]*$/.test(given) ? given : PATHS.rooms;
}
