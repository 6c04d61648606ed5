//! One transaction: an envelope, what became of it and what it changed, as bytes.

mod call;
mod meta;
mod outcome;

use stellar_xdr::{
    FeeBumpTransaction, FeeBumpTransactionEnvelope, FeeBumpTransactionExt,
    FeeBumpTransactionInnerTx, LedgerEntryChanges, Operation, OperationBody, Preconditions,
    Transaction, TransactionEnvelope, TransactionExt, TransactionV0, TransactionV0Envelope,
    TransactionV0Ext, TransactionV1Envelope,
};

use super::maker::{Maker, bounded};
use super::xdr;

pub(super) use meta::MetaVersion;
use outcome::Outcome;

/// What kind of transaction is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Family {
    Classic,
    Soroban,
}

/// A transaction before it stands in a ledger.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub(super) family: Family,
    pub(super) hash: [u8; 32],
    pub(super) inner_hash: Option<[u8; 32]>,
    pub(super) success: bool,
    pub(super) envelope: Vec<u8>,
    pub(super) result: Vec<u8>,
    pub(super) fee_processing: Vec<u8>,
    pub(super) meta: Vec<u8>,
    /// Only ledgers of the newest version have it.
    pub(super) post_fee_processing: Vec<u8>,
}

/// What all transactions of a ledger have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) network_id: [u8; 32],
    pub(super) meta: MetaVersion,
    pub(super) protocol: u32,
}

/// Makes one transaction of this kind.
pub(super) fn transaction(maker: &mut Maker, family: Family, setting: Setting) -> Parts {
    let operations = operations(maker, family);
    let outcome = Outcome::draw(maker, operations.len());
    let meta = meta::meta(maker, setting.meta, family, (outcome, operations.len()));
    let mut results = outcome.of_operations(maker, &operations);
    if outcome.success() {
        call::seal(maker, &mut results, &meta, setting.protocol);
    }
    let transaction = Transaction {
        source_account: maker.make(),
        fee: maker.make(),
        seq_num: maker.make(),
        cond: maker.make(),
        memo: maker.make(),
        operations: bounded(operations.clone()),
        ext: match family {
            Family::Classic => TransactionExt::V0,
            Family::Soroban => TransactionExt::V1(maker.make()),
        },
    };
    let envelope = envelope(maker, transaction);
    let hash_of = |envelope: &TransactionEnvelope| {
        let hash = envelope.hash(setting.network_id);
        hash.expect("what was made can be written")
    };
    let inner_hash = match &envelope {
        TransactionEnvelope::TxFeeBump(bump) => {
            let FeeBumpTransactionInnerTx::Tx(inner) = &bump.tx.inner_tx;
            Some(hash_of(&TransactionEnvelope::Tx(inner.clone())))
        }
        TransactionEnvelope::TxV0(_) | TransactionEnvelope::Tx(_) => None,
    };
    let post: LedgerEntryChanges = match family {
        Family::Classic => LedgerEntryChanges::default(),
        Family::Soroban => maker.make(),
    };
    Parts {
        family,
        hash: hash_of(&envelope),
        inner_hash,
        success: outcome.success(),
        envelope: xdr(&envelope),
        result: xdr(&outcome.result(maker, inner_hash, results)),
        fee_processing: xdr(&maker.make::<LedgerEntryChanges>()),
        meta: xdr(&meta),
        post_fee_processing: xdr(&post),
    }
}

/// One operation of a contract, or several others.
fn operations(maker: &mut Maker, family: Family) -> Vec<Operation> {
    let count = match family {
        Family::Soroban => 1,
        Family::Classic => maker.one_of(&[1, 1, 1, 2, 2, 3, 5]),
    };
    let mut operations = Vec::new();
    for _ in 0..count {
        operations.push(Operation {
            source_account: maker.make(),
            body: body(maker, family),
        });
    }
    operations
}

/// Any operation of the family.
fn body(maker: &mut Maker, family: Family) -> OperationBody {
    if family == Family::Soroban {
        return match maker.rng.below(8) {
            0 => OperationBody::ExtendFootprintTtl(maker.make()),
            1 => OperationBody::RestoreFootprint(maker.make()),
            _ => OperationBody::InvokeHostFunction(maker.make()),
        };
    }
    match maker.make() {
        OperationBody::InvokeHostFunction(_)
        | OperationBody::ExtendFootprintTtl(_)
        | OperationBody::RestoreFootprint(_) => OperationBody::Payment(maker.make()),
        classic => classic,
    }
}

/// Wraps a transaction in one of the three envelopes. The oldest takes no Soroban.
fn envelope(maker: &mut Maker, transaction: Transaction) -> TransactionEnvelope {
    let signatures = maker.between(1, 3);
    let classic = transaction.ext == TransactionExt::V0;
    match maker.rng.below(10) {
        0 | 1 if classic => TransactionEnvelope::TxV0(TransactionV0Envelope {
            tx: TransactionV0 {
                source_account_ed25519: maker.account(),
                fee: transaction.fee,
                seq_num: transaction.seq_num,
                time_bounds: match transaction.cond {
                    Preconditions::Time(bounds) => Some(bounds),
                    Preconditions::None | Preconditions::V2(_) => None,
                },
                memo: transaction.memo,
                operations: transaction.operations,
                ext: TransactionV0Ext::V0,
            },
            signatures: maker.list(signatures),
        }),
        2..=4 => {
            let inner = TransactionV1Envelope {
                tx: transaction,
                signatures: maker.list(signatures),
            };
            TransactionEnvelope::TxFeeBump(FeeBumpTransactionEnvelope {
                tx: FeeBumpTransaction {
                    fee_source: maker.make(),
                    fee: maker.make(),
                    inner_tx: FeeBumpTransactionInnerTx::Tx(inner),
                    ext: FeeBumpTransactionExt::V0,
                },
                signatures: maker.list(1),
            })
        }
        _ => TransactionEnvelope::Tx(TransactionV1Envelope {
            tx: transaction,
            signatures: maker.list(signatures),
        }),
    }
}
