// Companies: the operator creates and suspends them, and a company's admin sets its budget.

import type { AuditAction, AuditRecord } from '../../prisma/store/access/audit';
import {
  companyResource,
  createCompany,
  listCompanies,
  loadCompany,
  ownCompanyResource,
  resumeCompany,
  setBudget,
  suspendCompany,
} from '../../prisma/store/lifecycle/companies';
import { NotFound } from '../../prisma/store/db/errors';
import { createKey, keyResource } from '../../prisma/store/access/keys';
import type { Tx } from '../../prisma/store/db/transaction';
import { created, ok, readRoute, writeRoute, type Route } from '../route';
import { companyOf, newCompany, newKey, ownCompany, pageOf, shownCompany } from '../schemas/answers';
import { companyBody, companyPatch } from '../schemas/bodies';
import { slugOr } from '../schemas/fields';
import { listBody, listQuery, pageRequest } from '../schemas/lists';

/** An audit entry for the operator's action. It belongs to the company's audit. */
function companyAudit(action: AuditAction, company: string): AuditRecord {
  return { action, subject: company, companies: [company] };
}

/** Creates an admin key, with which the company creates its other keys. The result has the token. */
async function createAdminKey(tx: Tx, companyId: string): Promise<Record<string, unknown>> {
  const { key, token } = await createKey(tx, { kind: 'person', role: 'admin', name: 'admin', companyId });
  return { ...keyResource(key), token };
}

export const companyRoutes: readonly Route[] = [
  writeRoute({
    method: 'post',
    path: '/v1/companies',
    role: 'operator',
    summary: 'Create a company and its first admin key',
    success: created(newCompany),
    body: companyBody,
    audit: (_, { company }) => companyAudit('company.created', (company as { id: string }).id),
    async handle(tx, { body }) {
      const company = await createCompany(tx, { slug: slugOr(body.slug, body.name), name: body.name });
      const admin_key = await createAdminKey(tx, company.id);
      return { status: 201, body: { company: companyResource(company), admin_key } };
    },
  }),
  writeRoute({
    method: 'post',
    path: '/v1/companies/:company/admin-keys',
    role: 'operator',
    summary: 'Create another admin key for a company that lost its own',
    success: created(newKey),
    audit: ({ ids }, key) => ({
      action: 'key.created',
      subject: key.id,
      companies: [ids.company],
      details: { kind: 'person', role: 'admin' },
    }),
    async handle(tx, { ids }) {
      const { id } = await loadCompany(tx, ids.company);
      return { status: 201, body: await createAdminKey(tx, id) };
    },
  }),
  readRoute({
    path: '/v1/companies',
    role: 'operator',
    summary: 'List all companies',
    success: ok(pageOf(shownCompany)),
    query: listQuery('co'),
    async handle(db, { query }) {
      return { status: 200, body: listBody(await listCompanies(db, pageRequest(query)), companyResource) };
    },
  }),
  readRoute({
    path: '/v1/companies/:company',
    role: 'anyone',
    summary: 'Get a company',
    success: ok(companyOf),
    async handle(db, { caller, ids }) {
      if (caller.kind === 'operator') return { status: 200, body: companyResource(await loadCompany(db, ids.company)) };
      if (caller.companyId !== ids.company) throw new NotFound('no such company');
      return { status: 200, body: ownCompanyResource(await loadCompany(db, ids.company)) };
    },
  }),
  writeRoute({
    method: 'patch',
    path: '/v1/companies/:company',
    role: 'admin',
    summary: 'Set the budget of a company',
    success: ok(ownCompany),
    audit: ({ ids, body }) => ({ action: 'company.changed', subject: ids.company, details: body }),
    body: companyPatch,
    async handle(tx, { caller, ids, body }) {
      if (caller.companyId !== ids.company) throw new NotFound('no such company');
      return { status: 200, body: ownCompanyResource(await setBudget(tx, ids.company, body.tokens_per_day)) };
    },
  }),
  writeRoute({
    method: 'post',
    path: '/v1/companies/:company/suspend',
    role: 'operator',
    summary: 'Suspend a company: its keys are refused and its open runs are cancelled',
    success: ok(shownCompany),
    audit: ({ ids }) => companyAudit('company.suspended', ids.company),
    async handle(tx, { ids }) {
      const { company, changed } = await suspendCompany(tx, ids.company);
      return { status: 200, body: companyResource(company), repeated: !changed };
    },
  }),
  writeRoute({
    method: 'post',
    path: '/v1/companies/:company/resume',
    role: 'operator',
    summary: 'Resume a suspended company',
    success: ok(shownCompany),
    audit: ({ ids }) => companyAudit('company.resumed', ids.company),
    async handle(tx, { ids }) {
      const { company, changed } = await resumeCompany(tx, ids.company);
      return { status: 200, body: companyResource(company), repeated: !changed };
    },
  }),
];
