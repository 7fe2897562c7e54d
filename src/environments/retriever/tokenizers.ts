/** A text's terms, in order, repeated ones repeated. What a document is found by. */
export type Tokenize = (text: string) => string[];

/** Every run of Latin letters and digits, in lower case. */
export const tokenizeAlphanumeric: Tokenize = (text) =>
  text.toLowerCase().match(/[a-z0-9]+/g) ?? [];
