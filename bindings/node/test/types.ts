// Programs that the types must accept, and some that they must refuse. It is checked, and never runs.

import windrow, { DecodeStream, ItemError, Tokenizer, countFiles, encodeFiles, type Batch, type Counts, type EncodeOptions, type Encodings, type IdsLike, type Progress, type Ragged, type Summary } from 'windrow';

export async function accepted(): Promise<void> {
  const tokenizer: Tokenizer = await Tokenizer.fromFile(new URL('file:///tokenizer.json'), { encodeSpecialTokens: true });
  const batch: Ragged = await tokenizer.encodeBatch(['a', 'b'] as const, { signal: AbortSignal.timeout(1000), addSpecialTokens: true });
  using other: Batch = tokenizer.encodeBatchSync(['c']);
  const further: Ragged = other;
  const first: Uint32Array = batch.ids.subarray(batch.offsets[0], batch.offsets[1]);
  const texts: string[] = await tokenizer.decodeBatch([first, [1, 2]]);
  const same: string[] = tokenizer.decodeBatchSync(batch, { skipSpecialTokens: false });
  const id: number | null = tokenizer.tokenToId(texts[0] + same[0]);
  const counts: Float64Array = tokenizer.countBatchSync(new Set(['a']));
  const summary: Summary = await encodeFiles(['a.jsonl'], 'out', { format: 'megatron', progress: ({ tokens }) => tokens.toFixed() });
  const options: EncodeOptions = { addSpecialTokens: null };
  const ids: IdsLike = await tokenizer.encode('a', { ...options, signal: null });
  const progress = ({ tokens }: Progress): void => console.log(tokens);
  await encodeFiles('a', new URL('file:///b'), { progress, tokenizer: null, keep: 'id' });
  console.log(ids.length, await tokenizer.decode(ids, null));
  const rows: Encodings = await tokenizer.encodings([['a', 'b']], { maxLength: 512, padding: true, truncation: 'onlySecond', signal: null });
  const ragged: Ragged = tokenizer.encodingsSync(['a', 'b'], { padding: 8, paddingSide: 'left' });
  const stream: DecodeStream = tokenizer.decodeStream({ skipSpecialTokens: false });
  for await (const part of stream.texts([1, Uint32Array.of(2)])) part.trim();
  const chat: Uint32Array = await tokenizer.encodeChat([{ role: 'user', content: 'Hi' }], { addGenerationPrompt: false, tools: [{}] });
  const limited: number = (await Tokenizer.fromModel('gpt-4o')).countTokens(tokenizer.chatText([{ role: 'user' }]), { limit: 5 });
  const files: Counts = await countFiles(['a.jsonl'], { field: ['a', 'b'], onError: 'skip', top: 3 });
  await tokenizer.encodeBatch((async function* () { yield 'a'; })());
  console.log(rows.spans, ragged.ids, chat, limited, files.total.tokens);
  console.log(id, counts, further.ids.length, summary.documents.read, windrow.version.length, new ItemError(1, 'reason').item);
}

export async function refused(tokenizer: Tokenizer): Promise<void> {
  // @ts-expect-error: numbers are no texts
  await tokenizer.encodeBatch([1]);
  // @ts-expect-error: there is no such option
  await tokenizer.encode('a', { addSpecial: true });
  // @ts-expect-error: a signal has no use for a call that blocks
  tokenizer.encodeSync('a', { signal: AbortSignal.timeout(1) });
  // @ts-expect-error: it is made by functions that load
  new Tokenizer();
  // @ts-expect-error: texts or pairs
  await tokenizer.encodings([1]);
  // @ts-expect-error: no such side
  tokenizer.encodingsSync(['a'], { paddingSide: 'middle' });
  // @ts-expect-error: a call that blocks cannot wait for a stream
  tokenizer.encodeBatchSync((async function* () { yield 'a'; })());
  // @ts-expect-error: messages have roles
  tokenizer.chatText([{ content: 'Hi' }]);
  // @ts-expect-error: no such format
  await encodeFiles('a', 'b', { format: 'zip' });
}
