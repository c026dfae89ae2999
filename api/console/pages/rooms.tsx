// The list of the rooms of the person's company.

import type { Express } from 'express';
import { Empty, Time, type Page } from '../page';
import { PATHS } from '../paths';
import type { Page as ListPage } from '../routes-client';
import type { Room } from '../resources';
import { handleGet, type ConsoleDeps, type Visit } from '../visit';

export function mountRooms(app: Express, deps: ConsoleDeps): void {
  app.get(PATHS.rooms, handleGet(deps, roomsPage));
}

async function roomsPage({ api, user, query }: Visit): Promise<Page> {
  const cursor = query.get('cursor') ?? undefined;
  const rooms = await api.get<ListPage<Room>>('/v1/rooms', { order: 'desc', cursor });
  return {
    title: 'Rooms',
    live: PATHS.news,
    body: (
      <>
        {rooms.data.length === 0 && (
          <Empty>No rooms yet. An admin of your company can create a room or accept an invitation with the API.</Empty>
        )}
        <ul class="cards" id="rooms" data-live-part>
          {rooms.data.map((room) => (
            <li class="card" id={room.id}>
              <h2>
                <a href={PATHS.room(room.id)}>{room.name}</a>
              </h2>
              <p class="meta">
                <span>{room.host === user.person.companyId ? 'Host: your company' : 'Guest: your company'}</span>
                <span>{room.last_seq} events</span>
                <span>
                  created <Time at={room.created_at} />
                </span>
                <RoomState room={room} />
              </p>
            </li>
          ))}
        </ul>
        {rooms.next_cursor !== null && (
          <p>
            <a href={`${PATHS.rooms}?cursor=${encodeURIComponent(rooms.next_cursor)}`}>Older rooms</a>
          </p>
        )}
      </>
    ),
  };
}

/** Shows whether the room is closed or paused; otherwise nothing. */
export function RoomState({ room }: { room: Room }) {
  if (room.closed_at !== null) return <span class="word bad">closed</span>;
  if (room.paused_at !== null) return <span class="word waiting">paused</span>;
  return null;
}
