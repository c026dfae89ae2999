// Companies: the tenants. The operator creates and suspends them.

import { Prisma, type Company } from '../../generated/client';
import { cancelOpenRuns, RoomDrafts } from '../runs/run-cancel';
import { Conflict, NotFound } from '../db/errors';
import { newId } from '../db/ids';
import { byId, pageOf, type Page, type PageRequest } from '../db/paging';
import { declareLock, forNoKeyUpdate } from '../db/lock-order';
import type { Reader, Tx } from '../db/transaction';

/** Creates a company. @throws Conflict if the slug is taken */
export async function createCompany(tx: Tx, company: { slug: string; name: string }): Promise<Company> {
  const id = newId('co');
  const created = await tx.$executeRaw`
    INSERT INTO companies (id, slug, name) VALUES (${id}, ${company.slug}, ${company.name})
    ON CONFLICT (slug) DO NOTHING`;
  if (created === 0) throw new Conflict('another company has this slug');
  return loadCompany(tx, id);
}

/** Reads a company. @throws NotFound */
export async function loadCompany(reader: Reader, companyId: string): Promise<Company> {
  const company = await reader.company.findUnique({ where: { id: companyId } });
  if (!company) throw new NotFound('no such company');
  return company;
}

export async function listCompanies(reader: Reader, page: PageRequest): Promise<Page<Company>> {
  return pageOf(await reader.company.findMany(byId(page)), page, (company) => company.id);
}

/**
 * Suspends a company: its keys and wakes are refused, and its open runs close as cancelled, in the caller's transaction.
 * `changed` is false if it was suspended before.
 *
 * It first locks every membership, which a claim locks for sharing. It therefore waits for a claim in progress and closes
 * its run; a later claim finds the company suspended.
 * @throws NotFound
 */
export async function suspendCompany(tx: Tx, companyId: string): Promise<{ company: Company; changed: boolean }> {
  await tx.$queryRaw`
    SELECT 1 AS locked FROM room_members WHERE company_id = ${companyId} ORDER BY room_id
    ${forNoKeyUpdate(tx, 'membership')}`;
  declareLock(tx, 'company');
  const changed = await tx.$executeRaw`
    UPDATE companies SET suspended_at = clock_ms() WHERE id = ${companyId} AND suspended_at IS NULL`;
  const drafts = new RoomDrafts();
  const ofCompany = Prisma.sql`company_id = ${companyId}`;
  await cancelOpenRuns(tx, drafts, ofCompany, { by: 'operator', why: 'suspended' });
  await drafts.append(tx);
  return { company: await loadCompany(tx, companyId), changed: changed === 1 };
}

/** Sets the daily budget that all agents of a company share. Null: no limit. @throws NotFound */
export async function setBudget(tx: Tx, companyId: string, tokensPerDay: number | null): Promise<Company> {
  await tx.$executeRaw`UPDATE companies SET tokens_per_day = ${tokensPerDay}::bigint WHERE id = ${companyId}`;
  return loadCompany(tx, companyId);
}

/** Ends the suspension of a company; `changed` is false if it was not suspended. @throws NotFound */
export async function resumeCompany(tx: Tx, companyId: string): Promise<{ company: Company; changed: boolean }> {
  const changed = await tx.$executeRaw`
    UPDATE companies SET suspended_at = NULL WHERE id = ${companyId} AND suspended_at IS NOT NULL`;
  return { company: await loadCompany(tx, companyId), changed: changed === 1 };
}

/** A company as its own keys see it. */
export function ownCompanyResource(company: Company): Record<string, unknown> {
  const { tokensPerDay } = company;
  return { ...companyResource(company), tokens_per_day: tokensPerDay === null ? null : Number(tokensPerDay) };
}

/** A company as the operator sees it. */
export function companyResource(company: Company): Record<string, unknown> {
  return {
    id: company.id,
    slug: company.slug,
    name: company.name,
    created_at: company.createdAt.toISOString(),
    suspended_at: company.suspendedAt?.toISOString() ?? null,
  };
}
