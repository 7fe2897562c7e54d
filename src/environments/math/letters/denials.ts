/**
 * Where a letter is no answer: it is struck out, denied, asked, corrected, or a part of a name. What is not known is no
 * denial, so this is a list of what policies write in some languages. Everything looks at a bounded part of the text.
 */

const NEAR = 80;
/** Words between a negation and the letter that it denies. */
const MOST_WORDS = 9;

const words = (list: string): Set<string> => new Set(list.trim().split(/\s+/));

const NEGATIONS = words(`
  not cannot never neither nor no without except excluding exclude excludes excluded eliminate eliminates eliminated
  eliminating rule rules ruled ruling reject rejects rejected rejecting discard discarded dismiss dismissed avoid instead
  than unlike wrong incorrect false hardly
  nicht kein keine keinen keiner nie niemals falsche falsch
  pas jamais mauvaise fausse exclure éliminer
  nunca jamás ni incorrecta falsa descartar
  não errada non sbagliata bukan salah`);
/** What may stand between a negation and its letter. */
const BETWEEN = words(`
  the a an that this it is be to as my our correct right best final true case answer option choice letter choose chosen
  choosing pick picking select selecting go going with of out think believe say sure certain convinced want would like
  could can will should must
  die der das dass antwort ist sein wäre richtige option glaube denke ich fall wahl
  la le l les que réponse est soit bonne juste correcte ce je lettre
  el los respuesta es sea opción correcta letra creo pienso
  a o resposta é che risposta è corretta`);
const CERTAIN = words('no a any without beyond');
/** Chinese, Japanese, Korean, Arabic, Hindi and Bengali, up to the letter. */
const NEGATED =
  /(?:不(?:是|可能|认为|覺得|觉得|认為|会|选|選|应)|并非|並非|排除|错误|錯誤|間違った|誤った|不正解|틀린|잘못된|오답|ليس|ليست|خاطئ|गलत|ভুল)[^\s,.。;!?、]{0,8}\s?$/u;
const NAMED =
  /(?:\b(?:vitamin[ae]?|hepatitis|hepatite|influenza|plan|schedule)|维生素|維生素|维他命|ビタミン|肝炎|비타민)[ \t-]?$/iu;
const TRAILING = /[ \t*_`~$()[\]{}:"'“”‘’«»「」<>\u200b]+$/u;
const CLAUSE = /[^\n.,;:!?。、]*$/u;

const isNegation = (word: string): boolean => NEGATIONS.has(word) || /n['’]t$/.test(word);

/** Before the letter: `I don't think the answer is`, `rule out option`. */
export function isNegated(text: string, at: number): boolean {
  const before = text
    .slice(Math.max(0, at - NEAR), at)
    .replace(/\\\p{L}{1,12}\{?$/u, '')
    .replace(TRAILING, '')
    .replaceAll(', dass', ' dass');
  if (NEGATED.test(before) || NAMED.test(before)) return true;
  const said = (CLAUSE.exec(before)?.[0].match(/[\p{L}\p{M}'’]+/gu) ?? []).slice(-MOST_WORDS);
  for (let word = said.pop()?.toLowerCase(); word !== undefined; word = said.pop()?.toLowerCase()) {
    // `cannot be eliminated` denies nothing.
    if (isNegation(word)) return !said.slice(-2).some((one) => isNegation(one.toLowerCase()));
    if (word === 'doubt') return !CERTAIN.has(said.at(-1)?.toLowerCase() ?? '');
    if (!BETWEEN.has(word)) return false;
  }
  return false;
}

const AFTER = `[ \\t)\\]}*_\`$"'”’]{0,8}`;
const WRONG = new RegExp(
  `^${AFTER}(?:${[
    `(?:isn|aren|wasn|can|couldn|won|wouldn|doesn)['’]t`,
    '(?:cannot|can not|does not|will not|would not|fails|makes no sense)',
    '(?:is|are|was|seems|looks|would be|must be|can be|cannot be) (?:also |clearly |definitely |simply |just )?(?:not|wrong|incorrect|false|out|eliminated|ruled out|invalid|impossible|unlikely|excluded|a distractor)',
    '(?:ist|wäre|sind|kann) (?:nicht|falsch|kein|ausgeschlossen)|scheidet aus|stimmt nicht|passt nicht',
    `n['’]est pas|ne (?:peut|convient|fonctionne)|(?:est|serait) (?:faux|fausse|incorrect|exclu|éliminé)`,
    'no (?:es|puede|sería|son|funciona)|(?:es|está|queda) (?:incorrect|fals|mal|descartad|errón)',
    'não (?:é|pode)|(?:é|está) (?:incorret|fals|errad)|non (?:è|può)|è (?:sbagliat|fals|errat)',
    '(?:bukan|salah|si sahihi)',
  ].join('|')})|^${AFTER}(?:${[
    '(?:是|肯定|显然|顯然)?(?:不对|不對|错|錯|不正确|不正確|不是|不可能|有误)',
    '(?:で|じゃ|が|は|だ)?(?:は|とは)?(?:ない|ありません|なく|間違|誤|違|思いません|思わない|不正解)',
    '(?:가|이|은|는)?\\s?(?:아니|아닙|아닌|틀렸|틀린|오답)',
    '(?:ليس|خاطئ|خطأ|غير صحيح)|नहीं|गलत|নয়|ভুল',
  ].join('|')})`,
  'iu',
);
const ASKED =
  /^[^.!,;\n(。、]{0,24}[?؟]|^(?:です|でしょう)?か(?:[。\s]|$)|^.{0,3}[吗嗎](?:[。\s]|$)/u;

/** Behind the letter: `is wrong`, `?`. */
export const isDeniedBehind = (behind: string): boolean => WRONG.test(behind) || ASKED.test(behind);

const STRUCK =
  /~~[^~\n]{1,200}~~|<(s|del|strike)>[^<]{0,200}<\/\1>|\\(?:[bx]?cancel|sout|st)\{[^{}]{0,200}\}/giu;

export const withoutStruck = (text: string): string => text.replaceAll(STRUCK, ' ');

/** Also at the beginning of a sentence. The letter itself is in upper case. */
const anyCase = (list: string): string =>
  list.replace(/(?<=^|\|)\p{Ll}/gu, (first) => `[${first}${first.toUpperCase()}]`);

const MARK = `(?:(?:${anyCase(
  [
    'no|nope|wait|hold on|scratch that|sorry|I mean|correction|or rather|rather|actually|my mistake|oops|hmm+',
    'nein|warte|moment|halt|ich meine|korrektur|vielmehr',
    'non|attends|attendez|pardon|plutôt|je veux dire|enfin',
    'espera|perdón|mejor dicho|quiero decir|corrección|não|aliás|aspetta|anzi|scusa',
  ].join('|'),
)})(?!\\p{L})|不对|不對|不|等等|等一下|更正|应该是|應該是|いや|待って|訂正|違う|아니|잠깐|정정)`;
const PAUSE = '[ \\t\\n,.;:!?…—–、。-]';
const NEXT_LETTER = '[("*`]{0,3}[A-Z](?!\\p{L})';
/** What takes a letter back, up to another mark of punctuation or letter: `no`, and `no C` in Spanish, is none by itself. */
const BACK = `(?:${MARK} )?${MARK}(?=[ \\t]*(?:[,.:;!?…—–、。-]|$|\\n)|(?<!\\b(?:[Nn]o|[Nn]on))[ \\t]+${NEXT_LETTER}|(?<!\\p{Script=Latin})${NEXT_LETTER})`;
/**
 * A letter, and behind a mark of punctuation a word that takes it back. Behind a period or a colon it may be the text of
 * a choice, such as `B. No, thanks`, unless another letter or another such word follows.
 */
const CORRECTED = new RegExp(
  `(?<![\\p{Script=Latin}\\p{N}])[A-Z][)\\]}*_\`$"']{0,8}(?:吗|嗎|です|ですか)?(?:[ \\t]*(?:[\\n,;!?…—–、。-]|\\.\\.)${PAUSE}{0,8}|[.:][ \\t]{0,3}(?=${MARK}[ ,.]{1,3}(?:${MARK}|[^\\n]{0,60}(?<!\\p{L})[A-HJ-Z](?![\\p{L}'’]))))${BACK}`,
  'gu',
);
const REVISED =
  /\b(?:on (?:reflection|second thoughts?)|let me (?:reconsider|rethink)|i (?:was wrong|made (?:a|an) (?:mistake|error)))\b/giu;
const LEADING = new RegExp(`^(?:${PAUSE}{1,8}|${MARK}(?=${PAUSE}|[A-Z]|$))`, 'u');

/** What is said behind the last correction; null: there is none. */
export function afterCorrection(text: string): string | null {
  let end = -1;
  for (const pattern of [CORRECTED, REVISED])
    for (const { 0: found, index } of text.matchAll(pattern))
      end = Math.max(end, index + found.length);
  if (end === -1) return null;
  let rest = text.slice(end, end + NEAR);
  while (LEADING.test(rest)) rest = rest.replace(LEADING, '');
  return rest + text.slice(end + NEAR);
}

/** Whether it is denied somewhere behind a place where it was an answer. */
export function isGivenUp(text: string, { letter, at }: { letter: string; at: number }): boolean {
  let left = 1000;
  for (
    let next = text.indexOf(letter, at + 1);
    next !== -1;
    next = text.indexOf(letter, next + 1)
  ) {
    const isAlone = !/[\p{L}\p{N}]/u.test(`${text[next - 1] ?? ''}${text[next + 1] ?? ''}`);
    if (isAlone && isNegated(text, next)) return true;
    if (--left === 0) return false;
  }
  return false;
}
