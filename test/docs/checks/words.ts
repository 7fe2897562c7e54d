/** How long a page is, for a person who reads it. */

/** What a program writes into a page: `<!-- name -->` to `<!-- /name -->`, `<!-- fields of … -->` to `<!-- end of fields -->`. */
const GENERATED = /<!-- (?:(\S+) -->.*?<!-- \/\1|fields of .*?<!-- end of fields) -->/gs;

/** As `wc -w` counts them, without generated parts. */
export const wordsIn = (page: string): number =>
  page.replaceAll(GENERATED, '').match(/\S+/g)?.length ?? 0;
