// The paths of the console's pages.

/** The path prefix of the console. Browsers send the session cookie only to paths under it. */
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

/** The given path if it is a path of the console, otherwise the list of rooms. Prevents redirects to other sites. */
export function ownPath(given: string | null | undefined): string {
  return given !== undefined && given !== null && /^\/console\/[A-Za-z0-9/_?=&.-]*$/.test(given) ? given : PATHS.rooms;
}
