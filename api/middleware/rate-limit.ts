// How much one key may ask for. Counted in this process's memory: with several processes behind one address, each gives a
// key its own allowance, and nothing has to be asked before a request is served.

import type { RequestHandler } from 'express';
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';
import { Problem } from '../problems';
import { callerOf } from './authentication';

const MINUTE_SECONDS = 60;

/** Answers with 429 what a key asks beyond its requests a minute. Only after `authenticate`. */
export function limitRequests(perMinute: number): RequestHandler {
  const limiter = new RateLimiterMemory({ points: perMinute, duration: MINUTE_SECONDS });
  return async (_req, res, next) => {
    try {
      await limiter.consume(callerOf(res).keyId);
    } catch (refused) {
      if (!(refused instanceof RateLimiterRes)) throw refused;
      const seconds = Math.max(1, Math.ceil(refused.msBeforeNext / 1_000));
      throw new Problem('rate_limited', `a key may make ${perMinute} requests a minute`, {
        headers: { 'Retry-After': String(seconds) },
      });
    }
    next();
  };
}
