// Stops what globalSetup started.

export default async function tearDown(): Promise<void> {
  await globalThis.durableRoomServers?.dispose();
}
