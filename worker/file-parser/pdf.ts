// The text of a PDF, page by page. Scripts are never run; fonts and images are never fetched.

import { getDocumentProxy } from 'unpdf';
import { Unreadable, type ParseLimits } from './limits';
import type { Section } from './passages';

/** @throws Unreadable */
export async function sectionsOfPdf(bytes: Uint8Array, limits: ParseLimits): Promise<Section[]> {
  const pdf = await open(bytes);
  if (pdf.numPages > limits.pages) throw new Unreadable('too_many_pages');
  const sections: Section[] = [];
  let length = 0;
  for (let number = 1; number <= pdf.numPages; number += 1) {
    const page = await pdf.getPage(number);
    const { items } = await page.getTextContent();
    const text = items.map((item) => ('str' in item ? item.str + (item.hasEOL ? '\n' : '') : '')).join('');
    page.cleanup();
    length += text.length;
    if (length > limits.text) throw new Unreadable('too_much_text');
    sections.push({ text: `${text}\n`, page: number, line: null });
  }
  return sections;
}

async function open(bytes: Uint8Array): Promise<Awaited<ReturnType<typeof getDocumentProxy>>> {
  try {
    return await getDocumentProxy(bytes, {
      isEvalSupported: false,
      disableFontFace: true,
      useSystemFonts: false,
      disableAutoFetch: true,
      stopAtErrors: false,
      verbosity: 0,
    });
  } catch (error) {
    throw new Unreadable(error instanceof Error && error.name === 'PasswordException' ? 'encrypted' : 'broken');
  }
}
