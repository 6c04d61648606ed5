//! The transfer that all others are copies of.

use stellar_xdr::{
    AccountEntry, AccountEntryExt, AccountEntryExtensionV1, AccountEntryExtensionV1Ext,
    AccountEntryExtensionV2, AccountEntryExtensionV2Ext, AccountEntryExtensionV3, AccountId, Asset,
    ContractEvent, DecoratedSignature, ExtensionPoint, Hash, HostFunction, Int128Parts,
    InvokeContractArgs, InvokeHostFunctionOp, InvokeHostFunctionResult,
    InvokeHostFunctionSuccessPreImage, LedgerEntry, LedgerEntryChange, LedgerEntryChanges,
    LedgerEntryData, LedgerEntryExt, LedgerFootprint, LedgerKey, LedgerKeyAccount, Liabilities,
    Memo, MuxedAccount, Operation, OperationBody, OperationMeta, OperationMetaV2, OperationResult,
    OperationResultTr, PaymentOp, PaymentResult, Preconditions, PublicKey, ScAddress, ScVal,
    SequenceNumber, Signature, SignatureHint, SorobanAuthorizationEntry, SorobanAuthorizedFunction,
    SorobanAuthorizedInvocation, SorobanCredentials, SorobanResources, SorobanTransactionData,
    SorobanTransactionDataExt, SorobanTransactionMeta, SorobanTransactionMetaExt,
    SorobanTransactionMetaV2, String32, Thresholds, TimePoint, Transaction, TransactionEnvelope,
    TransactionEventStage, TransactionExt, TransactionMeta, TransactionMetaV1, TransactionMetaV2,
    TransactionMetaV3, TransactionMetaV4, TransactionResult, TransactionResultExt,
    TransactionResultResult, TransactionV1Envelope, Uint256, VecM, WriteXdr,
};

use crate::stellar::maker::{Maker, bounded};
use crate::stellar::transaction::{Family, MetaVersion};
use crate::stellar::{event, xdr};

/// Marks: bytes that occur nowhere else in the template.
const SOURCE: [u8; 32] = [0xa1; 32];
const DESTINATION: [u8; 32] = [0xa2; 32];
const SIGNATURE: [u8; 64] = [0xa3; 64];
const RESULT: [u8; 32] = [0xa4; 32];
const AMOUNT: u64 = 0x5a51_5a52_5a53_5a54;
const SEQUENCE: u64 = 0x5b51_5b52_5b53_5b54;
const BALANCE: u64 = 0x5c51_5c52_5c53_5c54;

/// All marks, in the order of the values that replace them.
const MARKS: [&[u8]; 7] = [
    &SOURCE,
    &DESTINATION,
    &SIGNATURE,
    &RESULT,
    &AMOUNT.to_be_bytes(),
    &SEQUENCE.to_be_bytes(),
    &BALANCE.to_be_bytes(),
];

/// A part of the template, and where which of the marks are.
pub(super) struct Sheet {
    bytes: Vec<u8>,
    marks: Vec<(usize, usize)>,
}

impl Sheet {
    /// The XDR of a value, with its marks.
    fn of(value: &impl WriteXdr) -> Self {
        let (bytes, mut marks) = (xdr(value), Vec::new());
        let mut at = 0;
        // XDR puts everything at a multiple of four.
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let mut known = MARKS.iter().enumerate();
            let found = known.find(|(_, mark)| rest.starts_with(mark));
            at += found.map_or(4, |(which, mark)| {
                marks.push((at, which));
                mark.len()
            });
        }
        Self { bytes, marks }
    }

    /// A copy with these values, each as long as its mark, in place of the marks.
    pub(super) fn fill(&self, values: &[&[u8]; MARKS.len()]) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for &(at, which) in &self.marks {
            if let Some(value) = values.get(which)
                && let Some(to) = bytes.get_mut(at..at + value.len())
            {
                to.copy_from_slice(value);
            }
        }
        bytes
    }
}

/// The parts of a transfer.
pub(super) struct Template {
    pub(super) envelope: Sheet,
    pub(super) result: Sheet,
    /// What the hash in the result is made of.
    pub(super) preimage: Sheet,
    pub(super) fee_processing: Sheet,
    pub(super) meta: Sheet,
    pub(super) post_fee_processing: Sheet,
}

pub(super) fn template(maker: &mut Maker, family: Family, version: MetaVersion) -> Template {
    let operation = match family {
        Family::Classic => OperationResultTr::Payment(PaymentResult::Success),
        Family::Soroban => {
            OperationResultTr::InvokeHostFunction(InvokeHostFunctionResult::Success(Hash(RESULT)))
        }
    };
    let operations = bounded(vec![OperationResult::OpInner(operation)]);
    Template {
        envelope: Sheet::of(&envelope(maker, family)),
        result: Sheet::of(&TransactionResult {
            fee_charged: 40_000,
            result: TransactionResultResult::TxSuccess(operations),
            ext: TransactionResultExt::V0,
        }),
        preimage: Sheet::of(&InvokeHostFunctionSuccessPreImage {
            return_value: ScVal::Void,
            events: bounded(vec![transfer(maker)]),
        }),
        fee_processing: Sheet::of(&changes(&[SOURCE])),
        meta: Sheet::of(&meta(maker, version)),
        post_fee_processing: Sheet::of(&changes(&[SOURCE])),
    }
}

fn envelope(maker: &Maker, family: Family) -> TransactionEnvelope {
    let (body, ext) = match family {
        Family::Classic => {
            let payment = PaymentOp {
                destination: MuxedAccount::Ed25519(Uint256(DESTINATION)),
                asset: Asset::Native,
                amount: AMOUNT.cast_signed(),
            };
            (OperationBody::Payment(payment), TransactionExt::V0)
        }
        Family::Soroban => (invocation(maker), TransactionExt::V1(resources())),
    };
    let operation = Operation {
        source_account: None,
        body,
    };
    TransactionEnvelope::Tx(TransactionV1Envelope {
        tx: Transaction {
            source_account: MuxedAccount::Ed25519(Uint256(SOURCE)),
            fee: 5_000_000,
            seq_num: SequenceNumber(SEQUENCE.cast_signed()),
            cond: Preconditions::None,
            memo: Memo::None,
            operations: bounded(vec![operation]),
            ext,
        },
        signatures: bounded(vec![DecoratedSignature {
            hint: SignatureHint([0; 4]),
            signature: Signature(
                SIGNATURE
                    .to_vec()
                    .try_into()
                    .expect("no longer than allowed"),
            ),
        }]),
    })
}

fn invocation(maker: &Maker) -> OperationBody {
    let args = InvokeContractArgs {
        contract_address: ScAddress::Contract(maker.native()),
        function_name: event::name("transfer"),
        args: bounded(vec![party(SOURCE), party(DESTINATION), amount()]),
    };
    OperationBody::InvokeHostFunction(InvokeHostFunctionOp {
        host_function: HostFunction::InvokeContract(args.clone()),
        auth: bounded(vec![SorobanAuthorizationEntry {
            credentials: SorobanCredentials::SourceAccount,
            root_invocation: SorobanAuthorizedInvocation {
                function: SorobanAuthorizedFunction::ContractFn(args),
                sub_invocations: VecM::default(),
            },
        }]),
    })
}

fn resources() -> SorobanTransactionData {
    let account = |account| LedgerKeyAccount {
        account_id: id(account),
    };
    let keys = [SOURCE, DESTINATION].map(|key| LedgerKey::Account(account(key)));
    SorobanTransactionData {
        ext: SorobanTransactionDataExt::V0,
        resources: SorobanResources {
            footprint: LedgerFootprint {
                read_only: VecM::default(),
                read_write: bounded(keys.into()),
            },
            instructions: 1_200_000,
            disk_read_bytes: 5_000,
            write_bytes: 5_000,
        },
        resource_fee: 4_900_000,
    }
}

fn meta(maker: &mut Maker, version: MetaVersion) -> TransactionMeta {
    let before = changes(&[SOURCE, SOURCE]);
    let moved = changes(&[SOURCE, DESTINATION]);
    let after = LedgerEntryChanges::default();
    let plain = || {
        bounded(vec![OperationMeta {
            changes: moved.clone(),
        }])
    };
    let event = transfer(maker);
    match version {
        MetaVersion::V0 => TransactionMeta::V0(plain()),
        MetaVersion::V1 => TransactionMeta::V1(TransactionMetaV1 {
            tx_changes: before,
            operations: plain(),
        }),
        MetaVersion::V2 => TransactionMeta::V2(TransactionMetaV2 {
            tx_changes_before: before,
            operations: plain(),
            tx_changes_after: after,
        }),
        MetaVersion::V3 => TransactionMeta::V3(TransactionMetaV3 {
            ext: ExtensionPoint::V0,
            tx_changes_before: before,
            operations: plain(),
            tx_changes_after: after,
            soroban_meta: Some(SorobanTransactionMeta {
                ext: SorobanTransactionMetaExt::V0,
                events: bounded(vec![event]),
                return_value: ScVal::Void,
                diagnostic_events: VecM::default(),
            }),
        }),
        MetaVersion::V4 => {
            let amount = ScVal::I128(Int128Parts { hi: 0, lo: 40_000 });
            let fee = |stage| event::fee_of(maker, stage, party(SOURCE), amount.clone());
            let events = vec![
                fee(TransactionEventStage::BeforeAllTxs),
                fee(TransactionEventStage::AfterAllTxs),
            ];
            TransactionMeta::V4(TransactionMetaV4 {
                ext: ExtensionPoint::V0,
                tx_changes_before: before,
                operations: bounded(vec![OperationMetaV2 {
                    ext: ExtensionPoint::V0,
                    changes: moved,
                    events: bounded(vec![event]),
                }]),
                tx_changes_after: after,
                soroban_meta: Some(SorobanTransactionMetaV2 {
                    ext: SorobanTransactionMetaExt::V0,
                    return_value: Some(ScVal::Void),
                }),
                events: bounded(events),
                diagnostic_events: VecM::default(),
            })
        }
    }
}

/// The event of the transfer.
fn transfer(maker: &Maker) -> ContractEvent {
    event::transfer(maker, (party(SOURCE), party(DESTINATION)), amount())
}

fn amount() -> ScVal {
    ScVal::I128(Int128Parts { hi: 0, lo: AMOUNT })
}

fn party(account: [u8; 32]) -> ScVal {
    ScVal::Address(ScAddress::Account(id(account)))
}

fn id(account: [u8; 32]) -> AccountId {
    AccountId(PublicKey::PublicKeyTypeEd25519(Uint256(account)))
}

/// Each of these accounts before and after something.
fn changes(accounts: &[[u8; 32]]) -> LedgerEntryChanges {
    let before_and_after = |&account: &[u8; 32]| {
        let entry = entry(account);
        [
            LedgerEntryChange::State(entry.clone()),
            LedgerEntryChange::Updated(entry),
        ]
    };
    let changes = accounts.iter().flat_map(before_and_after);
    LedgerEntryChanges(bounded(changes.collect()))
}

fn entry(account: [u8; 32]) -> LedgerEntry {
    LedgerEntry {
        last_modified_ledger_seq: 53_312_000,
        data: LedgerEntryData::Account(AccountEntry {
            account_id: id(account),
            balance: BALANCE.cast_signed(),
            seq_num: SequenceNumber(SEQUENCE.cast_signed()),
            num_sub_entries: 0,
            inflation_dest: None,
            flags: 0,
            home_domain: String32::default(),
            thresholds: Thresholds([1, 0, 0, 0]),
            signers: VecM::default(),
            ext: AccountEntryExt::V1(AccountEntryExtensionV1 {
                liabilities: Liabilities {
                    buying: 0,
                    selling: 0,
                },
                ext: AccountEntryExtensionV1Ext::V2(AccountEntryExtensionV2 {
                    num_sponsored: 0,
                    num_sponsoring: 0,
                    signer_sponsoring_i_ds: VecM::default(),
                    ext: AccountEntryExtensionV2Ext::V3(AccountEntryExtensionV3 {
                        ext: ExtensionPoint::V0,
                        seq_ledger: 53_311_900,
                        seq_time: TimePoint(1_726_000_000),
                    }),
                }),
            }),
        }),
        ext: LedgerEntryExt::V0,
    }
}
