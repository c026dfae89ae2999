// The company's own feed, over all its rooms and with its held actions. In each room's order, and in that of the changes of
// held actions; between them, as it comes.

import { z } from 'zod';
import { viewerOf } from '../callers';
import { companyStream, decodePositions, readCompanyFeed } from '../room-feed';
import { ok, readRoute, type Route } from '../route';
import { limit } from '../schemas/lists';
import { shownFeedEvent } from '../schemas/room-answers';

const feedCursor = z
  .string()
  .transform((given, context) => {
    const positions = decodePositions(given);
    if (positions !== null) return positions;
    context.addIssue({ code: 'custom', message: 'a next_cursor of this feed' });
    return z.NEVER;
  })
  .meta({ minLength: 1 });

const feedQuery = z.strictObject({ limit, cursor: feedCursor.optional() });

const feedPage = z.object({
  data: z.array(shownFeedEvent),
  next_cursor: z.string().meta({ description: 'Never null: with nothing new yet, it is where to look again.' }),
});

export const feedRoutes: readonly Route[] = [
  readRoute({
    path: '/v1/feed',
    who: 'company',
    summary: 'What happens in all rooms of the caller, and to its held actions; as a stream it goes on',
    success: ok(feedPage),
    query: feedQuery,
    async handle(db, { caller, query }) {
      const viewer = { ...viewerOf(caller), keyId: caller.keyId };
      return { status: 200, body: await readCompanyFeed(db, viewer, query.cursor ?? new Map(), query.limit) };
    },
    stream: ({ caller, query }) => companyStream(viewerOf(caller), query.cursor ?? new Map()),
  }),
];
