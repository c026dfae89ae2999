// Stops the servers that global-setup.ts started, and removes their files.

export default async function tearDown(): Promise<void> {
  await globalThis.durableRoomServers?.dispose();
}
