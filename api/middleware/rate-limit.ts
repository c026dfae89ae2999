// The rate limit of one key, counted in this process's memory. No shared store is asked before a request; with several
// API processes, each one allows the full rate.

import type { RequestHandler } from 'express';
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';
import { Problem } from '../problems';
import { callerOf } from './authentication';

const MINUTE_SECONDS = 60;

/** Answers with 429 when a key exceeds its requests per minute. Use it only after `authenticate`. */
export function limitRequests(perMinute: number): RequestHandler {
  const limiter = new RateLimiterMemory({ points: perMinute, duration: MINUTE_SECONDS });
  return async (_req, res, next) => {
    try {
      await limiter.consume(callerOf(res).keyId);
    } catch (refused) {
      if (!(refused instanceof RateLimiterRes)) throw refused;
      const seconds = Math.max(1, Math.ceil(refused.msBeforeNext / 1_000));
      throw new Problem('rate_limited', `a key may make ${perMinute} requests per minute`, {
        headers: { 'Retry-After': String(seconds) },
      });
    }
    next();
  };
}
