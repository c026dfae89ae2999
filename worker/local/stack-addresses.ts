// What `npm start` and `npm run dev` print once everything runs.

import type { Stack } from './stack';

export function printStackAddresses({ apiUrl, services, operatorKey }: Stack): void {
  console.log('');
  console.log(`  API          ${apiUrl}`);
  console.log(`  Console      ${apiUrl}/console`);
  if (services.temporal.uiUrl) console.log(`  Temporal UI  ${services.temporal.uiUrl}`);
  if (operatorKey) {
    console.log(`  Operator key ${operatorKey}`);
    console.log('               Made just now and shown only this once: keep it.');
  }
  console.log('');
  console.log('  Ctrl-C stops all of it; the data stays for the next start.');
}
