// Companies: the tenants. Created and suspended by the operator.

import type { Company } from '../generated/client';
import { Conflict, NotFound } from './errors';
import { newId } from './ids';
import { byId, pageOf, type Page, type PageRequest } from './paging';
import type { Reader, Tx } from './transaction';

/** Creates a company. @throws Conflict when the slug is taken */
export async function createCompany(tx: Tx, company: { slug: string; name: string }): Promise<Company> {
  const id = newId('co');
  const created = await tx.$executeRaw`
    INSERT INTO companies (id, slug, name) VALUES (${id}, ${company.slug}, ${company.name})
    ON CONFLICT (slug) DO NOTHING`;
  if (created === 0) throw new Conflict('a company has this slug');
  return loadCompany(tx, id);
}

/** @throws NotFound */
export async function loadCompany(reader: Reader, companyId: string): Promise<Company> {
  const company = await reader.company.findUnique({ where: { id: companyId } });
  if (!company) throw new NotFound('no such company');
  return company;
}

export async function listCompanies(reader: Reader, page: PageRequest): Promise<Page<Company>> {
  return pageOf(await reader.company.findMany(byId(page)), page, (company) => company.id);
}

/** Shuts a company's keys and wakes out, or lets them in again. Idempotent. @throws NotFound */
export async function setSuspended(tx: Tx, companyId: string, suspended: boolean): Promise<Company> {
  await tx.$executeRaw`
    UPDATE companies SET suspended_at = CASE WHEN ${suspended} THEN coalesce(suspended_at, clock_timestamp()) END
    WHERE id = ${companyId}`;
  return loadCompany(tx, companyId);
}

/** A company as the API shows it. */
export function companyResource(company: Company): Record<string, unknown> {
  return {
    id: company.id,
    slug: company.slug,
    name: company.name,
    created_at: company.createdAt.toISOString(),
    suspended_at: company.suspendedAt?.toISOString() ?? null,
  };
}
